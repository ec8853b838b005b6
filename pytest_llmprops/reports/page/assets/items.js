// The list of items: tabs, search, filters, pages, and one opened item. Its state is in the address.
const PER_PAGE = 50;
const TITLES = { series: "Model", benchmark: "Benchmark", task: "Task", language: "Language", source: "Items from" };

async function items() {
  const data = await itemData();
  const several = data.series.length > 1;
  const facets = Object.keys(TITLES).filter((field) => data[field].length > 1);
  const [baseline, candidate] = data.pair;
  const start = { tab: "all", from: baseline, to: candidate, query: "", status: new Set(), pick: {}, split: false, check: false, selected: "", column: "status", sign: 1, page: 0, item: "" };
  let state = { ...start };
  let pairs = null;
  let shown = [];
  let hits = { query: "", rows: null };
  let latest = 0;
  const answers = new Map();
  const list = document.getElementById("list");
  const search = document.getElementById("search");
  const form = document.getElementById("filters");
  const reviews = reviewMarks(data, () => refresh());
  const view = details(data, reviews);
  const correct = data.status.indexOf("correct");
  const isPaired = () => state.tab !== "all";

  // An entry of the list is a row, or in the tabs of two models an item.
  const rowOf = (entry) => (isPaired() ? (pairs.shown[1][entry] >= 0 ? pairs.shown[1][entry] : pairs.shown[0][entry]) : entry);
  const rowsOf = (entry) => (isPaired() ? [pairs.shown[0][entry], pairs.shown[1][entry]].filter((row) => row >= 0) : [entry]);
  const number = (entry, field) => (isPaired() && field === "task" ? pairs.taskOf(entry) : data.number(rowOf(entry), field));
  const itemOf = (entry) => (isPaired() ? entry : data.itemOf[entry]);
  const idOf = (entry) => (isPaired() ? data.items.id[entry] : data.id(entry));

  // The state and the address.
  function values() {
    const named = Object.fromEntries(facets.filter((f) => f !== "series" && state.pick[f] !== undefined).map((f) => [f, data[f][state.pick[f]]]));
    const sorted = state.column !== "status" || state.sign < 0;
    return {
      ...named, tab: isPaired() ? state.tab : "", q: state.query.trim(), status: [...state.status].join(","),
      model: state.pick.series === undefined ? "" : state.pick.series + 1, split: state.split ? 1 : "", check: state.check ? "sample" : "", selected: state.selected,
      sort: sorted ? `${state.sign < 0 ? "-" : ""}${state.column}` : "", page: state.page ? state.page + 1 : "", item: state.item,
      from: state.from !== baseline ? state.from + 1 : "", to: state.to !== candidate ? state.to + 1 : "",
    };
  }
  const linkTo = (entry) => () => location.href.split("#")[0] + addressOf({ ...values(), item: keyOf(entry), page: "" });

  // What names an entry in an address: the id, and what distinguishes rows of one item.
  function keyOf(entry) {
    const row = rowOf(entry);
    const parts = [idOf(entry)];
    if (data.benchmark.length > 1 || data.source.length > 1) parts.push(data.name(row, "benchmark"), data.name(row, "source"));
    if (!isPaired() && several) parts.push(`model ${data.rows.series[row] + 1}`);
    return parts.join(" · ");
  }

  function restore(found) {
    const index = (text, of) => (Number(text) >= 1 && Number(text) <= of.length ? Number(text) - 1 : undefined);
    state = { ...start, status: new Set((found.status || "").split(",").filter((s) => data.status.includes(s))), pick: {} };
    state.tab = several && OUTCOMES.includes(found.tab) ? found.tab : "all";
    state.from = index(found.from, data.series) ?? baseline;
    state.to = index(found.to, data.series) ?? candidate;
    state.query = found.q || "";
    state.split = Boolean(found.split);
    state.check = found.check === "sample";
    state.selected = several && new RegExp(`^[01-]{${data.series.length}}$`).test(found.selected) ? found.selected : "";
    for (const field of facets) {
      const place = field === "series" ? index(found.model, data.series) ?? -1 : data[field].indexOf(found[field]);
      if (place >= 0) state.pick[field] = place;
    }
    const sort = /^(-?)(status|id|series|task|language|expected|given)$/.exec(found.sort) || ["", "", "status"];
    state.column = sort[2];
    state.sign = sort[1] ? -1 : 1;
    state.page = Math.max(0, (Number(found.page) || 1) - 1);
    state.item = found.item || "";
    search.value = state.query;
    for (const select of form.querySelectorAll("select[data-field]")) select.value = state.pick[select.dataset.field] ?? "";
    for (const select of document.querySelectorAll("select[data-side]")) select.value = state[select.dataset.side];
    const split = document.getElementById("split");
    if (split) split.value = state.split ? "split" : "";
    document.getElementById("check").value = state.check ? "sample" : "";
  }

  // Change the state: the list is built again, and Back undoes it.
  function change(values_, { push = true, keepPage = false } = {}) {
    Object.assign(state, keepPage ? {} : { page: 0, item: "" }, values_);
    return refresh({ push });
  }

  function matches(entry, except) {
    const row = rowOf(entry);
    if (except !== "status" && state.status.size && !state.status.has(data.name(row, "status"))) return false;
    if (state.split && !splits(itemOf(entry))) return false;
    if (state.check && !rowsOf(entry).some((one) => reviews.isSampled(one))) return false;
    if (state.selected && patternOf(data, itemOf(entry)) !== state.selected) return false;
    return facets.every((f) => state.pick[f] === undefined || (f === "series" && isPaired()) || number(entry, f) === state.pick[f]);
  }

  // Correct for one model and not for another.
  function splits(item) {
    const rows = data.rowsOf(item);
    const right = data.rows.status[rows[0]] === correct;
    return rows.some((other) => (data.rows.status[other] === correct) !== right);
  }

  function entries() {
    if (!isPaired()) return Array.from({ length: data.count }, (_, row) => row);
    const wanted = OUTCOMES.indexOf(state.tab);
    const found = [];
    pairs.outcome.forEach((outcome, item) => outcome === wanted && found.push(item));
    return found;
  }

  async function find(query, alive) {
    if (hits.query === query) return true;
    // A text between slashes is a regular expression. One that is not finished yet is a text.
    let pattern = null;
    if (/^\/.+\/$/.test(query)) try { pattern = new RegExp(query.slice(1, -1), "im"); } catch { /* a text */ }
    const rows = new Uint8Array(data.count);
    const complete = await eachText(data, (row, text) => {
      // The lower-case text of a row is kept with its chunk.
      text.haystack ??= [data.id(row), text[TEXT.expected], text[TEXT.given], text[TEXT.reason],
        ...text[TEXT.calls].flatMap((call) => [call[2], ...call[1].map(([, held]) => held[1])])].join("\n").toLowerCase();
      if (pattern ? pattern.test(text.haystack) : text.haystack.includes(query)) rows[row] = 1;
    }, alive, progress);
    if (complete) hits = { query, rows };
    return complete;
  }

  // The texts by which the list is sorted, cut to what a cell shows.
  async function sortTexts(column, alive) {
    if (answers.has(column)) return answers.get(column);
    const texts = new Array(data.count);
    if (!await eachText(data, (row, text) => { texts[row] = text[TEXT[column]].slice(0, 100); }, alive, progress)) return null;
    answers.set(column, texts);
    return texts;
  }

  function progress(part) {
    document.getElementById("count").textContent = `Reading ${Math.round(100 * part)}%…`;
  }

  async function sorted(matching, alive) {
    const { column, sign } = state;
    if (column === "status") {
      // Entries with equal status keep their order.
      const by = data.status.map(() => []);
      for (const entry of matching) by[data.rows.status[rowOf(entry)]].push(entry);
      return (sign > 0 ? by : by.reverse()).flat();
    }
    let key;
    if (column === "id") {
      ranks ??= rankOf(data.items.id);
      key = (entry) => ranks[itemOf(entry)];
    } else if (column in TEXT) {
      const texts = await sortTexts(column, alive);
      if (!texts) return null;
      const order = rankOf(matching.map((entry) => texts[rowOf(entry)]));
      const rank = new Map(matching.map((entry, place) => [entry, order[place]]));
      key = (entry) => rank.get(entry);
    } else {
      const order = rankOf(data[column] || []);
      key = (entry) => order[number(entry, column)];
    }
    return matching.sort((a, b) => sign * (key(a) - key(b)));
  }
  let ranks = null;

  async function refresh({ push = false, address = true } = {}) {
    const turn_ = latest += 1;
    const alive = () => turn_ === latest;
    if (address) writeAddress(values(), push);
    tabs();
    const query = state.query.trim().toLowerCase();
    if (query && !await find(query, alive)) return;
    const found = (entry) => !query || rowsOf(entry).some((row) => hits.rows[row]);
    const all = entries();
    const matching = await sorted(all.filter((entry) => matches(entry) && found(entry)), alive);
    if (!matching || !alive()) return;
    shown = matching;
    chips(all);
    const wanted = state.item ? shown.findIndex((entry) => keyOf(entry) === state.item) : -1;
    if (wanted >= 0) state.page = Math.floor(wanted / PER_PAGE);
    else if (state.item && !location.hash.includes("item=")) state.item = "";
    await draw(all.length, alive);
  }

  async function draw(total, alive = () => true) {
    const pages = Math.max(1, Math.ceil(shown.length / PER_PAGE));
    state.page = Math.min(state.page, pages - 1);
    const page = shown.slice(state.page * PER_PAGE, (state.page + 1) * PER_PAGE);
    const texts = await Promise.all(page.map((entry) => Promise.all(rowsOf(entry).map((row) => data.texts(row)))));
    const opened = page.find((entry) => state.item && keyOf(entry) === state.item);
    const content = opened === undefined ? null : await inside(opened);
    if (!alive()) return;
    list.classList.toggle("paired", isPaired());
    heading();
    list.tBodies[0].replaceChildren(...page.flatMap((entry, n) => {
      const made = line(entry, texts[n].map(({ text }) => text), entry === opened);
      return entry === opened ? [made, element("tr", { class: "detail" }, element("td", { colspan: visible() }, content))] : [made];
    }));
    const of = total.toLocaleString("en");
    document.getElementById("count").textContent = `${shown.length.toLocaleString("en")} of ${of} items`;
    document.getElementById("pages").hidden = pages < 2;
    document.getElementById("page").textContent = `Page ${state.page + 1} of ${pages}`;
    document.getElementById("previous").disabled = state.page === 0;
    document.getElementById("next").disabled = state.page >= pages - 1;
    list.dataset.total = total;
  }

  const inside = (entry) => (isPaired()
    ? view.both([pairs.shown[0][entry], pairs.shown[1][entry]], [data.series[state.from], data.series[state.to]], linkTo(entry))
    : view.one(entry, linkTo(entry)));

  // Narrow windows hide columns; a colspan above the number of visible columns would squeeze the others.
  const visible = () => [...list.tHead.rows[0].cells].filter((cell) => cell.offsetParent).length;
  const columns = () => ["status", "id", ...(several && !isPaired() ? ["series"] : []), "task", "language", "expected", ...(isPaired() ? ["before"] : []), "given"];
  const optional = new Set(["task", "language", "expected"]);

  function heading() {
    const names = { status: "Status", id: "Item", expected: "Expected", given: isPaired() ? "Candidate" : "Given", before: "Baseline", ...TITLES };
    list.tHead.replaceChildren(element("tr", {}, ...columns().map((column) => {
      const direction = state.column !== column || values().sort === "" ? "none" : state.sign > 0 ? "ascending" : "descending";
      const sorts = column !== "before";
      const header = element("th", { scope: "col", "aria-sort": sorts ? direction : null, class: optional.has(column) ? `optional ${column}` : column },
        sorts ? element("button", { type: "button", "data-column": column }, names[column]) : names[column]);
      if (sorts) header.firstChild.addEventListener("click", async () => {
        await change({ column, sign: direction === "ascending" ? -1 : 1 });
        list.tHead.querySelector(`[data-column="${column}"]`).focus({ preventScroll: true });
      });
      return header;
    })));
  }

  function line(entry, texts, isOpen) {
    const row = rowOf(entry);
    const clip = (text) => foreign("span", text.slice(0, 300), { class: "text clip" });
    // The answer that was read, and the reply if it has more.
    const answered = (text) => {
      const reply = replyOf(text).trim();
      return reply === text[TEXT.given].trim() ? [clip(reply)] : [clip(text[TEXT.given]), foreign("span", reply.slice(0, 200), { class: "text clip excerpt" })];
    };
    // The sides of a pair that have a row, in order.
    const [before, after] = isPaired() ? [pairs.shown[0][entry], pairs.shown[1][entry]] : [-1, row];
    const cell = {
      status: () => (isPaired()
        ? [before >= 0 ? mark(data.name(before, "status")) : "–", " → ", after >= 0 ? mark(data.name(after, "status")) : "–"]
        : [mark(data.name(row, "status"))]),
      expected: () => [clip(texts.at(-1)[TEXT.expected])],
      before: () => (before >= 0 ? answered(texts[0]) : []),
      given: () => (after >= 0 ? answered(texts.at(-1)) : []),
      series: () => [data.name(row, "series")],
      task: () => [words(data.task[number(entry, "task")])],
      language: () => [words(data.name(row, "language"))],
    };
    const cells = columns().map((column) => {
      const attributes = { class: optional.has(column) ? `optional ${column}` : column };
      if (column !== "id") return element("td", attributes, ...cell[column]());
      return element("th", { ...attributes, scope: "row" },
        element("button", { type: "button", "aria-expanded": String(isOpen), class: "open" }, ...breakable(idOf(entry))), reviews.badge(rowsOf(entry)),
        foreign("span", questionOf(texts.at(-1)), { class: "text clip excerpt" }));
    });
    const made = element("tr", {}, ...cells);
    made.querySelector(".open").addEventListener("click", () => open(isOpen ? "" : entry));
    return made;
  }

  async function open(entry) {
    const before = state.item;
    state.item = entry === "" ? "" : keyOf(entry);
    writeAddress(values(), true);
    await draw(Number(list.dataset.total));
    const page = shown.slice(state.page * PER_PAGE, (state.page + 1) * PER_PAGE);
    const at = page.findIndex((one) => keyOf(one) === (state.item || before));
    list.querySelectorAll(".open")[at]?.focus({ preventScroll: true });
    const line_ = list.querySelectorAll(".open")[at]?.closest("tr");
    if (line_ && state.item) line_.scrollIntoView({ block: "nearest" });
  }

  // The next or previous item, across pages.
  async function step(by) {
    let place = state.item ? shown.findIndex((entry) => keyOf(entry) === state.item) : -1;
    if (place < 0) place = state.page * PER_PAGE + (by > 0 ? -1 : 0);
    const next = Math.max(0, place + by);
    if (next >= shown.length) return;
    state.page = Math.floor(next / PER_PAGE);
    await open(shown[next]);
  }

  function chips(all) {
    const counts = new Map(data.status.map((s) => [s, 0]));
    for (const entry of all) {
      const status = data.name(rowOf(entry), "status");
      if (matches(entry, "status")) counts.set(status, counts.get(status) + 1);
    }
    for (const chip of document.getElementById("chips").children) {
      const status = chip.dataset.status;
      chip.setAttribute("aria-pressed", String(state.status.has(status)));
      chip.querySelector("b").textContent = counts.get(status).toLocaleString("en");
    }
  }

  function tabs() {
    if (!several) return;
    if (!pairs || pairs.baseline !== state.from || pairs.candidate !== state.to) pairs = pairing(data, state.from, state.to);
    const counts = OUTCOMES.map(() => 0);
    for (const outcome of pairs.outcome) if (outcome >= 0) counts[outcome] += 1;
    for (const tab of document.getElementById("tabs").children) {
      const name = tab.dataset.tab;
      const isChosen = name === state.tab;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      tab.querySelector("b").textContent = (name === "all" ? data.count : counts[OUTCOMES.indexOf(name)]).toLocaleString("en");
      if (isChosen) document.getElementById("panel").setAttribute("aria-labelledby", tab.id);
    }
    const same = state.from === state.to;
    const chosen = document.getElementById("selected");
    chosen.textContent = state.selected ? `Only items with this combination: ${patternLabel(data, state.selected)}` : "";
    document.getElementById("pair-note").textContent = same ? "Baseline and candidate are the same." : "";
    const field = form.querySelector("select[data-field=series]");
    if (field) field.closest("label").hidden = isPaired();
  }

  // Parts that do not change are built once.
  document.getElementById("selects").append(...facets.map((field) => {
    const select = element("select", { "data-field": field }, element("option", { value: "" }, "all"),
      ...data[field].map((text, index) => element("option", { value: index }, field === "series" ? text : words(text))));
    select.addEventListener("change", () => change({ pick: { ...state.pick, [field]: select.value === "" ? undefined : Number(select.value) } }));
    return element("label", {}, `${TITLES[field]} `, select);
  }));
  if (several) {
    const select = element("select", { id: "split" }, element("option", { value: "" }, "all items"), element("option", { value: "split" }, "right for some models only"));
    select.addEventListener("change", () => change({ split: select.value === "split" }));
    document.getElementById("selects").append(element("label", {}, "Between models ", select));
    buildTabs();
  }
  const check = element("select", { id: "check" }, element("option", { value: "" }, "all items"), element("option", { value: "sample" }, "sample to check"));
  check.addEventListener("change", () => change({ check: check.value === "sample" }));
  document.getElementById("selects").append(element("label", {}, "Readings ", check));
  document.getElementById("chips").append(...data.status.map((status) => {
    const chip = element("button", { type: "button", class: `chip mark ${status}`, "data-status": status, "aria-pressed": "false" },
      element("span", { "aria-hidden": "true" }, GLYPHS[status]), ` ${status} `, element("b"));
    chip.addEventListener("click", () => {
      const status_ = new Set(state.status);
      if (!status_.delete(status)) status_.add(status);
      change({ status: status_ });
    });
    return chip;
  }));

  function buildTabs() {
    const bar = document.getElementById("tabs");
    document.getElementById("upgrade").hidden = false;
    bar.append(...["all", ...OUTCOMES].map((name) => {
      const tab = element("button", { type: "button", role: "tab", id: `tab-${name}`, "data-tab": name, "aria-controls": "panel" }, `${OUTCOME_TITLES[name] || "All"} `, element("b"));
      tab.addEventListener("click", () => change({ tab: name }));
      return tab;
    }));
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const all = [...bar.children];
      const next = all[(all.findIndex((tab) => tab.dataset.tab === state.tab) + by + all.length) % all.length];
      next.focus();
      next.click();
    });
    for (const side of ["from", "to"]) {
      const select = document.querySelector(`select[data-side=${side}]`);
      select.append(...data.series.map((text, index) => element("option", { value: index }, text)));
      select.addEventListener("change", () => change({ [side]: Number(select.value) }));
    }
    document.getElementById("swap").addEventListener("click", () => {
      change({ from: state.to, to: state.from });
      for (const select of document.querySelectorAll("select[data-side]")) select.value = state[select.dataset.side];
    });
  }

  new ResizeObserver(() => {
    for (const cell of list.querySelectorAll(".detail > td")) cell.colSpan = visible();
  }).observe(list);
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => change({ query: search.value }, { push: false }), 120);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => {
    clearTimeout(waiting);
    change({ query: "", status: new Set(), pick: {}, split: false, check: false, selected: "" });
  });
  for (const [id, by] of [["previous", -1], ["next", 1]]) {
    document.getElementById(id).addEventListener("click", async () => {
      await change({ page: state.page + by, item: "" }, { keepPage: true });
      document.getElementById("items-title").scrollIntoView();
    });
  }

  // A number in a table opens its items.
  function reveal(wanted) {
    const found = { ...wanted, item: "" };
    for (const [name, old] of [["model", "series"], ["from", "baseline"], ["to", "candidate"]]) {
      if (old in wanted) found[name] = Number(wanted[old]) + 1;
    }
    restore(found);
    document.getElementById("items-title").focus({ preventScroll: true });
    // The height of the page depends on the list.
    refresh({ push: true }).then(() => document.getElementById(isPaired() ? "tabs" : "panel").scrollIntoView({ behavior: "instant" }));
  }
  document.querySelectorAll("[data-filter]").forEach((button) => button.addEventListener("click", () => reveal(JSON.parse(button.dataset.filter))));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.matches("input, textarea, select");
    if (event.key === "Escape" && state.item && !isTyping) open("");
    if (event.key === "Escape" && event.target === search) search.blur();
    if (isTyping) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    }
    if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  });

  function follow({ scroll = false } = {}) {
    const found = readAddress();
    if (!found && location.hash) return refresh({ address: false });
    restore(found || {});
    const done = refresh({ address: false });
    if (found && scroll) done.then(() => (list.querySelector(".open[aria-expanded=true]")?.closest("tr") || document.getElementById("items")).scrollIntoView({ behavior: "instant" }));
    return done;
  }
  addEventListener("popstate", () => {
    if (readAddress() || !location.hash) follow();
  });
  await follow({ scroll: true });
  heatMap(data, (pattern) => reveal({ selected: pattern }));
  root.dataset.ready = "items";
}

// Called where the page ends and the texts of the items begin. Plots and tables are painted before the list is built.
function begin() {
  theme();
  document.querySelectorAll("table.sortable").forEach(sortable);
  requestAnimationFrame(() => setTimeout(() => items().catch((error) => {
    const text = "DecompressionStream" in window ? `The list of items cannot be shown: ${error.message}` : "The list of items needs a newer browser: Chrome 80, Firefox 113, Safari 16.4.";
    document.getElementById("count").textContent = text;
  })));
}
