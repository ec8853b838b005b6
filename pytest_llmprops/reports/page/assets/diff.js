// A word diff of two replies (Myers 1986, An O(ND) difference algorithm).
// Scripts without spaces between words are compared by character.
const TOKEN = /\s+|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{N}\p{M}\u200c\u200d'’_]+|./gsu;
// Above this number of differences, texts are shown as entirely different.
const MOST_EDITS = 1500;

// The parts of both texts as [text, is different], in order.
function wordDiff(before, after) {
  const a = before.match(TOKEN) || [];
  const b = after.match(TOKEN) || [];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const same = commonWords(...middle);
  return [a, b].map((tokens, side) => {
    const changed = middle[side].map((token, n) => [token, !same[side].has(n)]);
    const rest = (part) => part.map((token) => [token, false]);
    return joinedParts([...rest(tokens.slice(0, start)), ...changed, ...rest(tokens.slice(tokens.length - end))]);
  });
}

function joinedParts(parts) {
  const joined = [];
  for (const [text, differs] of parts) {
    const last = joined.at(-1);
    if (last && last[1] === differs) last[0] += text;
    else joined.push([text, differs]);
  }
  return joined;
}

// The places in a and in b of a longest common subsequence.
function commonWords(a, b) {
  const places = [new Set(), new Set()];
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const offset = most + 1;
  const furthest = new Int32Array(2 * most + 3);
  const trace = [];
  let found = -1;
  for (let edits = 0; edits <= most && found < 0; edits += 1) {
    trace.push(furthest.slice(offset - edits - 1, offset + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && furthest[offset + k - 1] < furthest[offset + k + 1]);
      let x = down ? furthest[offset + k + 1] : furthest[offset + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest[offset + k] = x;
      if (x >= a.length && x - k >= b.length) {
        found = edits;
        break;
      }
    }
  }
  let [x, y] = [a.length, b.length];
  for (let edits = found; edits >= 0 && (x > 0 || y > 0); edits -= 1) {
    // The state before this edit: diagonal k is at place k + edits + 1.
    const known = trace[edits];
    const at = (k) => known[k + edits + 1];
    const k = x - y;
    const down = edits > 0 && (k === -edits || (k !== edits && at(k - 1) < at(k + 1)));
    const from = edits === 0 ? 0 : down ? at(k + 1) : at(k - 1) + 1;
    while (x > from) {
      x -= 1;
      y -= 1;
      places[0].add(x);
      places[1].add(y);
    }
    if (edits > 0 && down) y -= 1;
    else if (edits > 0) x -= 1;
  }
  return places;
}

// A <pre> with the words that the other text lacks marked, in a tone: good or bad.
function marked(parts, tone, more = {}) {
  const made = foreign("pre", "", more);
  made.append(...parts.map(([text, differs]) => (differs && text.trim() ? element("mark", { class: tone }, text) : text)));
  return made;
}
