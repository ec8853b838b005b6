// Pairs of rows on one item: what a candidate lost and gained compared with a baseline, as `llmprops compare` counts.
const OUTCOMES = ["lost", "gained", "wrong", "right", "apart"];
const OUTCOME_TITLES = {
  lost: "Lost", gained: "Gained", wrong: "Both wrong", right: "Both right", apart: "Not comparable",
};

function pairing(data, baseline, candidate) {
  const correct = data.status.indexOf("correct");
  const error = data.status.indexOf("error");
  const { series, status, task } = data.rows;
  const outcome = new Int8Array(data.items.count).fill(-1);
  const shown = [new Int32Array(data.items.count).fill(-1), new Int32Array(data.items.count).fill(-1)];

  // The share of correct samples, without errors; null if every sample is an error.
  function share(rows) {
    const answered = rows.filter((row) => status[row] !== error);
    return answered.length ? answered.filter((row) => status[row] === correct).length / answered.length : null;
  }

  // A sample that is or is not correct, as wanted; otherwise the first one.
  function sample(rows, wanted) {
    const fits = (row) => status[row] !== error && (status[row] === correct) === wanted;
    return wanted === undefined ? rows[0] : rows.find(fits) ?? rows[0];
  }

  for (let item = 0; item < data.items.count; item += 1) {
    const rows = [[], []];
    for (let row = data.first[item]; row < data.first[item + 1]; row += 1) {
      if (series[row] === baseline) rows[0].push(row);
      if (series[row] === candidate) rows[1].push(row);
    }
    const [before, after] = rows.map(share);
    if (!rows[0].length && !rows[1].length) continue;
    if (before === null || after === null) outcome[item] = 4;
    else if (before !== after) outcome[item] = after < before ? 0 : 1;
    else outcome[item] = after === 1 ? 3 : 2;
    const flipped = outcome[item] < 2;
    const wanted = [outcome[item] === 0, outcome[item] === 1];
    rows.forEach((own, side) => {
      if (own.length) shown[side][item] = sample(own, flipped ? wanted[side] : undefined);
    });
  }

  // The item's task: that of most samples of the candidate, as in tables of a comparison.
  function taskOf(item) {
    const row = shown[1][item] >= 0 ? shown[1][item] : shown[0][item];
    const tasks = data.rowsOf(item).filter((one) => series[one] === series[row]).map((one) => task[one]);
    if (tasks.length < 2) return task[row];
    const count = (one) => tasks.filter((other) => other === one).length;
    return tasks.reduce((best, one) => (count(one) > count(best) ? one : best));
  }

  return { baseline, candidate, outcome, shown, taskOf };
}
