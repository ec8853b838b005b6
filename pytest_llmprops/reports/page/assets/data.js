// The data of the items. The index has the columns of all rows; texts are in compressed chunks, decoded when shown.
const TEXT = { expected: 0, given: 1, reason: 2, reading: 3, values: 4, left_out: 5, calls: 6 };
// Decoded texts of at most this many rows are kept.
const MOST_KEPT = 30000;

const parsed = new Promise((done) => {
  if (document.readyState !== "loading") done();
  else document.addEventListener("DOMContentLoaded", done);
});

async function itemData() {
  const data = await unpacked(document.getElementById("index").textContent);
  const { rows, items } = data;
  const kept = new Map();
  data.count = rows.series.length;
  data.items.count = items.id.length;
  // The rows of item n are first[n] to first[n + 1] - 1.
  data.first = new Uint32Array(data.items.count + 1);
  data.itemOf = new Uint32Array(data.count);
  for (let item = 0; item < data.items.count; item += 1) {
    data.first[item + 1] = data.first[item] + items.rows[item];
    data.itemOf.fill(item, data.first[item], data.first[item + 1]);
  }
  data.sample = (row) => rows.sample[row] || 0;
  data.id = (row) => items.id[data.itemOf[row]] + (data.sample(row) ? ` #${data.sample(row)}` : "");
  // The name of a field of a row.
  data.number = (row, field) => (field in rows ? rows[field][row] : items[field][data.itemOf[row]]);
  data.name = (row, field) => data[field][data.number(row, field)];
  data.rowsOf = (item) => Array.from({ length: items.rows[item] }, (_, n) => data.first[item] + n);
  data.chunks = Math.ceil(data.count / data.per_chunk);
  data.chunk = (number) => {
    let chunk = kept.get(number);
    if (chunk) kept.delete(number);
    else {
      chunk = (async () => {
        let source = document.getElementById(`chunk-${number}`);
        if (!source) {
          await parsed;
          source = document.getElementById(`chunk-${number}`);
        }
        return unpacked(source.textContent);
      })();
    }
    // The chunk that was used longest ago is the first.
    kept.set(number, chunk);
    if (kept.size * data.per_chunk > MOST_KEPT && kept.size > 1) kept.delete(kept.keys().next().value);
    return chunk;
  };
  // The texts of a row: an array with the places of TEXT.
  data.texts = async (row) => {
    const chunk = await data.chunk(Math.floor(row / data.per_chunk));
    return { chunk, text: chunk.rows[row % data.per_chunk] };
  };
  return data;
}

// Calls `visit(row, text, chunk)` for all rows, chunk by chunk; `alive()` says whether to go on.
async function eachText(data, visit, alive, progress) {
  let painted = performance.now();
  for (let number = 0; number < data.chunks; number += 1) {
    const chunk = await data.chunk(number);
    if (!alive()) return false;
    chunk.rows.forEach((text, n) => visit(number * data.per_chunk + n, text, chunk));
    if (performance.now() - painted > 100) {
      progress(number / data.chunks);
      await new Promise((done) => setTimeout(done));
      painted = performance.now();
    }
  }
  return true;
}

// The model's last reply about an item; without a recorded one, the answer that was read.
function replyOf(text) {
  const own = text[TEXT.calls].filter((call) => call[0] === "subject");
  const last = (own.length ? own : text[TEXT.calls]).at(-1);
  return (last && last[2]) || text[TEXT.given];
}

// The end of the first prompt, after examples and instructions.
function questionOf(text) {
  const own = text[TEXT.calls].find((call) => call[0] === "subject") || text[TEXT.calls][0];
  const end = own ? own[1].at(-1)[1][1].trim() : "";
  return end.length > 110 ? `…${end.slice(-110).replace(/^\S{0,15}\s+/, " ")}` : end;
}

// Tokens, seconds and USD of all calls of a row; USD is null if a price is unknown.
function usageOf(text) {
  return text[TEXT.calls].reduce(([sent, received, seconds, cost], [, , , , used]) => [
    sent + used[0], received + used[1], seconds + used[2], cost === null || used[3] === null ? null : cost + used[3],
  ], [0, 0, 0, 0]);
}
