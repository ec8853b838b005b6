// The items of a benchmark with their results in all runs. Texts from records reach the page by textContent only.
const PER_PAGE = 50;
// Runs that an opened item lists at first.
const MOST_RUNS = 100;
const RESULTS = {
  c: { text: "correct", glyph: "✓", colour: "--right", height: 1 },
  m: { text: "some samples correct", glyph: "◐", colour: "--unclear", height: 0.75 },
  w: { text: "wrong", glyph: "✗", colour: "--bad", height: 0.55 },
  r: { text: "refused", glyph: "⊘", colour: "--odd", height: 0.4 },
  u: { text: "unparsed", glyph: "?", colour: "--unclear", height: 0.4 },
  t: { text: "untested", glyph: "–", colour: "--unclear", height: 0.2 },
  e: { text: "error", glyph: "!", colour: "--ink", height: 0.2 },
};
const SORTS = { changes: "changed most often", right: "right least often", id: "id" };
const FIELDS = { task: "Task", language: "Language", source: "Items from" };

async function page() {
  const data = await pageData();
  const list = document.getElementById("list");
  const search = document.getElementById("search");
  const selects = document.getElementById("selects");
  const start_ = { benchmark: 0, query: "", pick: {}, sort: "changes", page: 0, item: "" };
  let state = { ...start_ };
  let index = null;
  let shown = [];
  let latest = 0;
  const kept = new Map();

  if (!data.benchmarks.length) {
    document.getElementById("count").textContent = "No complete run yet.";
    root.dataset.ready = "items";
    return;
  }
  const benchmark = () => data.benchmarks[state.benchmark];

  async function chunk(number) {
    const name = benchmark().chunks[number];
    if (!kept.has(name)) kept.set(name, loaded(name));
    if (kept.size > 60) kept.delete(kept.keys().next().value);
    return kept.get(name);
  }

  // The letters of an item by column, and the shares of its samples.
  async function results(item) {
    const { rows, shares } = await chunk(Math.floor(item / index.per_chunk));
    const place = item % index.per_chunk;
    return { letters: rows[place], share: (column) => shares[`${place},${column}`] };
  }

  const nameOf = (item, field) => index[field][index.items[field][item]];
  const keyOf = (item) => [index.items.id[item], ...["task", "source"].filter((f) => index[f].length > 1).map((f) => nameOf(item, f))].join(" · ");

  function values() {
    const named = Object.fromEntries(Object.keys(FIELDS).filter((f) => state.pick[f] !== undefined).map((f) => [f, index[f][state.pick[f]]]));
    return { ...named, q: state.query.trim(), benchmark: state.benchmark ? benchmark().name : "", sort: state.sort === "changes" ? "" : state.sort, page: state.page ? state.page + 1 : "", item: state.item };
  }

  async function restore() {
    const found = readAddress() || {};
    const number = data.benchmarks.findIndex((one) => one.name === found.benchmark);
    state = { ...start_, pick: {}, benchmark: Math.max(0, number), query: found.q || "", sort: found.sort in SORTS ? found.sort : "changes", page: Math.max(0, (Number(found.page) || 1) - 1), item: found.item || "" };
    await choose();
    for (const field of Object.keys(FIELDS)) {
      const place = index[field].indexOf(found[field]);
      if (place >= 0) state.pick[field] = place;
    }
    search.value = state.query;
    for (const select of selects.querySelectorAll("select[data-field]")) select.value = state.pick[select.dataset.field] ?? "";
    await refresh({ address: false });
  }

  // Read the index of the chosen benchmark and offer its filters.
  async function choose() {
    index = await loaded(benchmark().index);
    const option = (text, value) => element("option", { value }, text);
    const labelled = (text, select) => element("label", {}, text, select);
    const made = [];
    if (data.benchmarks.length > 1) {
      const select = element("select", { id: "benchmark" }, ...data.benchmarks.map((one, n) => option(one.title, n)));
      select.value = state.benchmark;
      select.addEventListener("change", async () => {
        state = { ...start_, pick: {}, benchmark: Number(select.value) };
        search.value = "";
        await choose();
        await refresh({ push: true });
        document.getElementById("benchmark").focus();
      });
      made.push(labelled("Benchmark", select));
    }
    for (const [field, title] of Object.entries(FIELDS)) {
      if (index[field].length < 2) continue;
      const select = element("select", { "data-field": field }, option("all", ""), ...index[field].map((text, n) => option(words(text), n)));
      select.addEventListener("change", () => change({ pick: { ...state.pick, [field]: select.value === "" ? undefined : Number(select.value) } }));
      made.push(labelled(title, select));
    }
    const order = element("select", { id: "sort" }, ...Object.entries(SORTS).map(([value, text]) => option(text, value)));
    order.value = state.sort;
    order.addEventListener("change", () => change({ sort: order.value }));
    made.push(labelled("Sorted by", order));
    selects.replaceChildren(...made);
  }

  const change = (values_) => {
    Object.assign(state, { page: 0, item: "" }, values_);
    return refresh({ push: true });
  };

  async function refresh({ push = false, address = true } = {}) {
    const query = state.query.trim().toLowerCase();
    const { items } = index;
    shown = [];
    for (let item = 0; item < items.id.length; item += 1) {
      const fits = Object.keys(FIELDS).every((field) => state.pick[field] === undefined || items[field][item] === state.pick[field]);
      if (fits && (!query || items.id[item].toLowerCase().includes(query))) shown.push(item);
    }
    // The items of the index are sorted by changes.
    if (state.sort === "right") {
      const share = (item) => (items.answered[item] ? items.right[item] / items.answered[item] : 2);
      shown.sort((a, b) => share(a) - share(b) || a - b);
    } else if (state.sort === "id") {
      const ranks = rankOf(items.id);
      shown.sort((a, b) => ranks[a] - ranks[b]);
    }
    const place = state.item ? shown.findIndex((item) => keyOf(item) === state.item) : -1;
    if (place >= 0) state.page = Math.floor(place / PER_PAGE);
    if (address) writeAddress(values(), push);
    await draw();
  }

  async function draw() {
    const turn_ = latest += 1;
    const pages = Math.max(1, Math.ceil(shown.length / PER_PAGE));
    state.page = Math.min(state.page, pages - 1);
    const page_ = shown.slice(state.page * PER_PAGE, (state.page + 1) * PER_PAGE);
    const all = await Promise.all(page_.map(results));
    if (turn_ !== latest) return;
    const rows = page_.flatMap((item, n) => line(item, all[n]));
    list.tBodies[0].replaceChildren(...rows);
    document.getElementById("count").textContent = `${shown.length.toLocaleString("en")} of ${index.items.id.length.toLocaleString("en")} items, ${index.model.length.toLocaleString("en")} result${index.model.length === 1 ? "" : "s"} each`;
    document.getElementById("pages").hidden = pages < 2;
    document.getElementById("page").textContent = `${state.page + 1} of ${pages}`;
    document.getElementById("previous").disabled = state.page === 0;
    document.getElementById("next").disabled = state.page === pages - 1;
    paint();
  }

  function line(item, result) {
    const isOpen = keyOf(item) === state.item;
    const { items } = index;
    const opener = element("button", { type: "button", class: "open", "aria-expanded": String(isOpen) }, ...breakable(items.id[item]));
    opener.addEventListener("click", () => open(isOpen ? null : item));
    const counts = `${items.right[item]} of ${items.answered[item]}`;
    const strip = element("canvas", { role: "img", "aria-label": `right in ${counts} runs, ${items.changes[item]} change${items.changes[item] === 1 ? "" : "s"}` });
    strip.letters = result.letters;
    const task = [words(nameOf(item, "task")), index.language.length > 1 ? nameOf(item, "language") : ""].filter(Boolean).join(", ");
    const made = element("tr", {}, element("th", { scope: "row", class: "id" }, opener), element("td", { class: "optional" }, task),
      element("td", { class: "num" }, counts), element("td", { class: "num" }, String(items.changes[item])), element("td", { class: "strip" }, strip));
    return isOpen ? [made, element("tr", { class: "detail" }, element("td", { colspan: 5 }, detail(item, result)))] : [made];
  }

  // The runs of an item, newest first, by model.
  function detail(item, result) {
    const columns = [...result.letters].map((_, n) => n).filter((n) => result.letters[n] !== ".").reverse();
    const inside = element("div", { class: "inside" });
    const several = index.settings.some((one) => one !== 0);
    const heads = ["Model", "Date", "Result", "Run", ...(several ? ["Settings"] : [])];
    const row = (column) => {
      const [id, date, report, models, withPlace] = data.runs[benchmark().runs[column]];
      const model = index.models[index.model[column]];
      const kind = RESULTS[result.letters[column]];
      const share = result.share(column);
      const text = share ? `${share.replace("/", " of ")} samples correct` : kind.text;
      // The address of the item in the run's own report, as its list of items writes it.
      const parts = [index.items.id[item], ...(withPlace ? [benchmark().name, nameOf(item, "source")] : []), ...(models.length > 1 ? [`model ${models.indexOf(model) + 1}`] : [])];
      const place = element("span", {}, runLink(id, report, addressOf({ item: parts.join(" · ") })));
      return [model, date, element("span", { class: `mark ${kind.text}` }, `${kind.glyph} ${text}`), place, ...(several ? [index.settings[column] ? `other (${index.settings[column] + 1})` : "usual"] : [])];
    };
    const show = (count) => {
      const more = columns.length - count;
      const button = more > 0 ? element("button", { type: "button", class: "plain" }, `Show ${more.toLocaleString("en")} more`) : null;
      button?.addEventListener("click", () => { show(columns.length); inside.querySelector("tbody th")?.focus(); });
      inside.replaceChildren(tableOf(heads, columns.slice(0, count).map(row)), ...(button ? [button] : []));
    };
    show(MOST_RUNS);
    return inside;
  }

  async function open(item) {
    const before = state.item;
    state.item = item === null ? "" : keyOf(item);
    writeAddress(values(), true);
    await draw();
    const page_ = shown.slice(state.page * PER_PAGE, (state.page + 1) * PER_PAGE);
    const at = page_.findIndex((one) => keyOf(one) === (state.item || before));
    const opener = list.querySelectorAll(".open")[at];
    opener?.focus({ preventScroll: true });
    if (state.item) opener?.closest("tr").scrollIntoView({ block: "nearest" });
  }

  async function step(by) {
    let place = state.item ? shown.findIndex((item) => keyOf(item) === state.item) : -1;
    if (place < 0) place = state.page * PER_PAGE + (by > 0 ? -1 : 0);
    const next = Math.max(0, place + by);
    if (next >= shown.length) return;
    state.page = Math.floor(next / PER_PAGE);
    await open(shown[next]);
  }

  // Bars of different heights, so that results differ in shape as well as in colour; a gap between models.
  function paint() {
    const style = getComputedStyle(root);
    const colours = Object.fromEntries(Object.entries(RESULTS).map(([letter, { colour }]) => [letter, style.getPropertyValue(colour)]));
    const gaps = index.model.map((model, n) => (n && model !== index.model[n - 1] ? 1 : 0));
    for (const canvas of list.querySelectorAll("canvas")) {
      const scale = Math.max(2, devicePixelRatio || 1);
      const [width, height] = [canvas.clientWidth, 22];
      canvas.width = width * scale;
      canvas.height = height * scale;
      const brush = canvas.getContext("2d");
      brush.scale(scale, scale);
      const count = index.model.length;
      const gap = 3;
      const total = gaps.reduce((sum, one) => sum + one * gap, 0);
      const step_ = Math.min(9, Math.max(0.5, (width - total) / count));
      let left = 0;
      for (let n = 0; n < count; n += 1) {
        left += gaps[n] * gap;
        const kind = RESULTS[canvas.letters[n]];
        if (kind) {
          brush.fillStyle = colours[canvas.letters[n]];
          const tall = Math.round(height * kind.height);
          brush.fillRect(left, height - tall, Math.max(0.5, step_ - (step_ > 2 ? 1 : 0)), tall);
        }
        left += step_;
      }
    }
  }

  list.tHead.append(element("tr", {}, ...[["Item", "id"], ["Task", "optional"], ["Right", "num"], ["Changes", "num"], ["Runs, by model and date", "strip"]].map(([text, name]) => element("th", { scope: "col", class: name }, text))));
  document.getElementById("legend").append(...Object.values(RESULTS).map(({ text, colour, height }) => element("li", {},
    element("span", { class: "sample", "aria-hidden": "true", style: `height:${height}em;background:var(${colour})` }), text)));
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ query: search.value }), 120);
  });
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, by] of [["previous", -1], ["next", 1]]) {
    document.getElementById(id).addEventListener("click", async () => {
      Object.assign(state, { page: state.page + by, item: "" });
      writeAddress(values(), true);
      await draw();
      document.getElementById("items-title").scrollIntoView();
    });
  }
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && state.item && !isTyping) open(null);
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    if (event.key === "j") step(1);
    if (event.key === "k") step(-1);
  });
  addEventListener("popstate", () => restore().catch((error) => fail(error.message)));
  addEventListener("resize", paint);
  new MutationObserver(paint).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  await restore();
  root.dataset.ready = "items";
}
