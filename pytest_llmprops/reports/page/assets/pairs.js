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

  // A sample of a series that is or is not correct, as wanted; otherwise the first one.
  function sample(item, side, wanted) {
    let first = -1;
    for (let row = data.first[item]; row < data.first[item + 1]; row += 1) {
      if (series[row] !== side) continue;
      if (wanted === undefined || (status[row] !== error && (status[row] === correct) === wanted)) return row;
      if (first < 0) first = row;
    }
    return first;
  }

  for (let item = 0; item < data.items.count; item += 1) {
    // Samples, answered samples and correct samples of both sides.
    let [rowsBefore, answeredBefore, rightBefore, rowsAfter, answeredAfter, rightAfter] = [0, 0, 0, 0, 0, 0];
    for (let row = data.first[item]; row < data.first[item + 1]; row += 1) {
      const [answered, right] = [status[row] === error ? 0 : 1, status[row] === correct ? 1 : 0];
      if (series[row] === baseline) {
        rowsBefore += 1;
        answeredBefore += answered;
        rightBefore += right;
      }
      if (series[row] === candidate) {
        rowsAfter += 1;
        answeredAfter += answered;
        rightAfter += right;
      }
    }
    if (!rowsBefore && !rowsAfter) continue;
    // The shares of correct samples, without errors, are compared as fractions of whole numbers.
    const [before, after] = [rightBefore * answeredAfter, rightAfter * answeredBefore];
    if (!answeredBefore || !answeredAfter) outcome[item] = 4;
    else if (before !== after) outcome[item] = after < before ? 0 : 1;
    else outcome[item] = rightAfter === answeredAfter ? 3 : 2;
    const flipped = outcome[item] < 2;
    shown[0][item] = sample(item, baseline, flipped ? outcome[item] === 0 : undefined);
    shown[1][item] = sample(item, candidate, flipped ? outcome[item] === 1 : undefined);
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
