// The results of all models on all items, sorted by disagreement.
// The results on one item, a character per model: 1 right in all samples, 0 not, - without a verdict.
function patternOf(data, item) {
  const right = data.status.indexOf("correct");
  const marks = new Array(data.series.length).fill("-");
  for (let row = data.first[item]; row < data.first[item + 1]; row += 1) {
    const status = data.rows.status[row];
    if (data.status[status] === "error") continue;
    const series = data.rows.series[row];
    marks[series] = status === right && marks[series] !== "0" ? "1" : "0";
  }
  return marks.join("");
}

function heatMap() {}
