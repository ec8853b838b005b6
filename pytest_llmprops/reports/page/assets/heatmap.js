// The results of all models on all items, sorted by disagreement: a picture whose parts select items of the list.
// The results on one item, a character per model: 1 right in all samples, 0 not, - without a verdict.
function patternOf(data, item) {
  const right = data.status.indexOf("correct");
  const error = data.status.indexOf("error");
  const marks = new Array(data.series.length).fill("-");
  for (let row = data.first[item]; row < data.first[item + 1]; row += 1) {
    const status = data.rows.status[row];
    if (status === error) continue;
    const series = data.rows.series[row];
    marks[series] = status === right && marks[series] !== "0" ? "1" : "0";
  }
  return marks.join("");
}

// Buttons for the most frequent patterns; the picture has all.
const MOST_PATTERNS = 24;
const PATTERN_GLYPHS = { 1: "✓", 0: "✗", "-": "·" };
const PATTERN_WORDS = { 1: "right", 0: "not right", "-": "no verdict" };

// The patterns with their numbers of items: the closer to half of the models right, the earlier.
function patternsOf(data) {
  const counts = new Map();
  for (let item = 0; item < data.items.count; item += 1) {
    const pattern = patternOf(data, item);
    counts.set(pattern, (counts.get(pattern) || 0) + 1);
  }
  const agreement = (pattern) => {
    const right = pattern.replaceAll(/[^1]/g, "").length;
    const wrong = pattern.replaceAll(/[^0]/g, "").length;
    return Math.abs(right - wrong) / Math.max(1, right + wrong) + (right + wrong > 1 ? 0 : 1);
  };
  return [...counts].map(([pattern, count]) => ({ pattern, count, rank: agreement(pattern) }))
    .sort((a, b) => a.rank - b.rank || b.count - a.count || (a.pattern < b.pattern ? -1 : 1));
}

function patternLabel(data, pattern) {
  return [...pattern].map((one, n) => `${data.series[n]} ${PATTERN_WORDS[one]}`).join(", ");
}

function heatMap(data, select) {
  const place = document.getElementById("heat");
  if (!place || data.series.length < 2) return;
  place.hidden = false;
  const patterns = patternsOf(data);
  const canvas = place.querySelector("canvas");
  const label = ({ pattern, count }) => `${patternLabel(data, pattern)}: ${count.toLocaleString("en")} items`;

  function paint() {
    const style = getComputedStyle(root);
    const colours = Object.fromEntries([["1", "--right"], ["0", "--not-right"], ["-", "--line"]].map(([one, name]) => [one, style.getPropertyValue(name)]));
    const scale = Math.max(2, devicePixelRatio || 1);
    const rowHeight = 22;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = data.series.length * rowHeight * scale;
    canvas.style.height = `${data.series.length * rowHeight}px`;
    const brush = canvas.getContext("2d");
    let left = 0;
    for (const { pattern, count } of patterns) {
      const [from, to] = [left, left + count].map((items) => Math.round((items / data.items.count) * canvas.width));
      [...pattern].forEach((one, n) => {
        brush.fillStyle = colours[one];
        brush.fillRect(from, n * rowHeight * scale, Math.max(1, to - from), (rowHeight - 3) * scale);
      });
      left += count;
    }
  }

  function at(event) {
    let left = (event.offsetX / canvas.clientWidth) * data.items.count;
    return patterns.find(({ count }) => (left -= count) < 0) || patterns.at(-1);
  }
  canvas.addEventListener("click", (event) => select(at(event).pattern));
  canvas.addEventListener("mousemove", (event) => { canvas.title = label(at(event)); });
  document.getElementById("heat-names").append(...data.series.map((name) => element("li", {}, name)));
  document.getElementById("heat-patterns").append(...patterns.slice(0, MOST_PATTERNS).map((one) => {
    const marks = [...one.pattern].map((state) => element("span", { class: `heat-${state === "1" ? "right" : state === "0" ? "wrong" : "none"}` }, PATTERN_GLYPHS[state]));
    const button = element("button", { type: "button", class: "chip", "aria-label": label(one), title: label(one) }, ...marks, ` ${one.count.toLocaleString("en")}`);
    button.addEventListener("click", () => select(one.pattern));
    return element("li", {}, button);
  }));
  const more = patterns.length - MOST_PATTERNS;
  if (more > 0) document.getElementById("heat-patterns").append(element("li", { class: "note" }, `${more} further combinations in the picture`));
  paint();
  new ResizeObserver(paint).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  new MutationObserver(paint).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
}
