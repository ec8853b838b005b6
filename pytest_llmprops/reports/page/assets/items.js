// The list of items: tabs, search, filters, columns, pages, and one item in a panel beside it. Its state is in the address.
const PER_PAGE = 15;
const TITLES = { series: "Model", benchmark: "Benchmark", task: "Task", language: "Language", source: "Items from" };
// Columns that are hidden unless they are chosen, and those that narrow lists hide unless they are chosen.
const RARE = new Set(["reason"]);
const OPTIONAL = new Set(["task", "language", "expected", "before"]);

async function items() {
  const data = await itemData();
  const several = data.series.length > 1;
  const facets = Object.keys(TITLES).filter((field) => data[field].length > 1);
  const [baseline, candidate] = data.pair;
  const start = { tab: "all", from: baseline, to: candidate, query: "", status: new Set(), pick: {}, split: false, check: false, selected: "", value: "", least: "", most: "", column: "status", sign: 1, page: 0, item: "" };
  let state = { ...start };
  let pairs = null;
  let shown = [];
  let hits = { query: "", rows: null };
  // The chosen value of each row; not a number without one.
  let numbers = null;
  let latest = 0;
  const answers = new Map();
  const list = document.getElementById("list");
  const panel = document.getElementById("item");
  const unfolded = new Set();
  const search = document.getElementById("search");
  const form = document.getElementById("filters");
  const reviews = reviewMarks(data, () => refresh());
  const view = details(data, reviews);
  // The columns that a person chose or hid, in all reports.
  const chosenColumns = savedColumns();
  const correct = data.status.indexOf("correct");
  const isPaired = () => state.tab !== "all";

  // An entry of the list is a row, or in the tabs of two models an item.
  const rowOf = (entry) => (isPaired() ? (pairs.shown[1][entry] >= 0 ? pairs.shown[1][entry] : pairs.shown[0][entry]) : entry);
  const sidesOf = (entry) => (isPaired() ? [pairs.shown[0][entry], pairs.shown[1][entry]] : [-1, entry]);
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
      value: state.value, least: String(state.least), most: String(state.most), sort: sorted ? `${state.sign < 0 ? "-" : ""}${state.column}` : "", page: state.page ? state.page + 1 : "", item: state.item,
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
    if (Object.hasOwn(data.values, found.value || "")) {
      const bound = (text) => (text && Number.isFinite(Number(text)) ? Number(text) : "");
      Object.assign(state, { value: found.value, least: bound(found.least), most: bound(found.most) });
    }
    for (const field of facets) {
      const place = field === "series" ? index(found.model, data.series) ?? -1 : data[field].indexOf(found[field]);
      if (place >= 0) state.pick[field] = place;
    }
    const sort = /^(-?)(status|id|series|task|language|expected|given|reason|value)$/.exec(found.sort) || ["", "", "status"];
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
    valueFilter.show();
  }

  // Change the state: the list is built again, and Back undoes it.
  function change(values_, { push = true, keepPage = false } = {}) {
    Object.assign(state, keepPage ? {} : { page: 0, item: "" }, values_);
    return refresh({ push });
  }

  function matches(entry, except) {
    const row = rowOf(entry);
    if (except !== "status" && state.status.size && !state.status.has(data.name(row, "status"))) return false;
    if (numbers && !(numbers[row] >= (state.least === "" ? -Infinity : state.least) && numbers[row] <= (state.most === "" ? Infinity : state.most))) return false;
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

  async function valuesOf(name, alive) {
    if (answers.has(`value ${name}`)) return answers.get(`value ${name}`);
    const found = new Float64Array(data.count).fill(NaN);
    if (!await eachText(data, (row, text) => { found[row] = text[TEXT.values][name] ?? NaN; }, alive, progress)) return null;
    answers.set(`value ${name}`, found);
    return found;
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
    } else if (column === "value") {
      key = (entry) => numbers[rowOf(entry)];
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
    if (state.column === "value" && !state.value) Object.assign(state, { column: "status", sign: 1 });
    if (address) writeAddress(values(), push);
    tabs();
    valueFilter.show();
    const wantedValues = state.value ? await valuesOf(state.value, alive) : null;
    if (!alive() || (state.value && !wantedValues)) return;
    numbers = wantedValues;
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
    list.tBodies[0].replaceChildren(...page.map((entry, n) => line(entry, texts[n].map(({ text }) => text), entry === opened)));
    offerColumns(columnBox.dataset.offered);
    panel.hidden = !content;
    document.getElementById("browse").classList.toggle("is-open", !panel.hidden);
    // What is unfolded in one item, is in the next.
    const before = document.getElementById("item-content");
    for (const part of before.querySelectorAll("details")) unfolded[part.open ? "add" : "delete"](part.className);
    for (const part of content?.querySelectorAll("details") ?? []) part.open = unfolded.has(part.className);
    before.replaceChildren(...(content ? [content] : []));
    panel.scrollTop = 0;
    if (content) {
      const place = shown.indexOf(opened);
      document.getElementById("item-title").replaceChildren(...breakable(idOf(opened)));
      document.getElementById("item-place").textContent = `${(place + 1).toLocaleString("en")} of ${shown.length.toLocaleString("en")}`;
      for (const button of panel.querySelectorAll("[data-step]")) button.disabled = !(place + Number(button.dataset.step) in shown);
    }
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

  // The columns that can be chosen, in order. The question is a line below the item's id.
  const offered = () => ["question", ...(several && !isPaired() ? ["series"] : []), "task", "language", "expected", ...(isPaired() ? ["before"] : []), "given", "reason", ...(state.value ? ["value"] : [])];
  const isShown = (column) => chosenColumns[column] ?? !RARE.has(column);
  const columns = () => ["status", "id", ...offered().filter((column) => column !== "question" && isShown(column))];
  const titles = () => ({ status: "Status", id: "Item", question: "Question", expected: "Expected", given: isPaired() ? "Candidate" : "Given", before: "Baseline", reason: "Reason", value: words(state.value), ...TITLES });
  const classOf = (column) => (OPTIONAL.has(column) && chosenColumns[column] === undefined ? `optional ${column}` : column);

  function heading() {
    const names = titles();
    list.tHead.replaceChildren(element("tr", {}, ...columns().map((column) => {
      const direction = state.column !== column || values().sort === "" ? "none" : state.sign > 0 ? "ascending" : "descending";
      const sorts = column !== "before";
      const header = element("th", { scope: "col", "aria-sort": sorts ? direction : null, class: classOf(column) },
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
    const [before, after] = sidesOf(entry);
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
      reason: () => [clip(texts.at(-1)[TEXT.reason])],
      value: () => [[before, after].filter((one) => one >= 0).map((one) => (Number.isNaN(numbers?.[one] ?? NaN) ? "–" : numbers[one].toLocaleString("en"))).join(" → ")],
    };
    const cells = columns().map((column) => {
      const attributes = { class: classOf(column) };
      if (column !== "id") return element("td", attributes, ...cell[column]());
      return element("th", { ...attributes, scope: "row" },
        element("button", { type: "button", "aria-controls": "item", "aria-current": isOpen ? "true" : null, "data-key": keyOf(entry), class: "open" }, ...breakable(idOf(entry))), reviews.badge(rowsOf(entry)),
        isShown("question") ? foreign("span", questionOf(texts.at(-1)), { class: "text clip excerpt" }) : null);
    });
    const made = element("tr", {}, ...cells);
    // A text of the row can be selected without opening it.
    made.addEventListener("click", (event) => {
      if (event.target.closest("button") || getSelection().isCollapsed) open(entry, { enter: true });
    });
    return made;
  }

  const openerOf = (key) => [...list.querySelectorAll(".open")].find((one) => one.dataset.key === key);
  const closeItem = () => open("");

  // Open an item, or close the panel. The focus goes into the panel, stays in it, or is on the item's row.
  async function open(entry, { enter = false } = {}) {
    const before = state.item;
    const inside_ = enter || panel.contains(document.activeElement);
    state.item = entry === "" ? "" : keyOf(entry);
    const top = openerOf(state.item || before)?.getBoundingClientRect().top;
    writeAddress(values(), true);
    await draw(Number(list.dataset.total));
    const opener = openerOf(state.item || before);
    if (!opener) return;
    // The panel changes the width of the list: the row stays where it was on the screen.
    if (top !== undefined) scrollBy({ top: opener.getBoundingClientRect().top - top, behavior: "instant" });
    (state.item && inside_ ? panel : opener).focus({ preventScroll: true });
    if (state.item) reach(opener);
  }

  function reach(opener) {
    panel.scrollIntoView({ block: "nearest", behavior: "instant" });
    opener.closest("tr").scrollIntoView({ block: "nearest", behavior: "instant" });
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
  const valueFilter = valueChoice(data, () => state, change);
  document.getElementById("selects").append(...valueFilter.labels);
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

  const columnBox = document.getElementById("columns");
  columnBox.addEventListener("toggle", () => offerColumns(""));
  function offerColumns(before) {
    if (!columnBox.open || before === offered().join()) return;
    columnBox.dataset.offered = offered().join();
    // What a narrow list hides is not checked.
    const visible = (column) => (column === "question" ? isShown(column) : Boolean(list.tHead.querySelector(`.${column}`)?.offsetParent));
    columnBox.lastElementChild.replaceChildren(...offered().map((column) => {
      const box = element("input", { type: "checkbox" });
      box.checked = visible(column);
      box.addEventListener("change", () => {
        chosenColumns[column] = box.checked;
        stored("columns", JSON.stringify(chosenColumns));
        draw(Number(list.dataset.total));
      });
      return element("label", {}, box, ` ${titles()[column]}`);
    }));
  }
  for (const button of panel.querySelectorAll("[data-step]")) button.addEventListener("click", () => step(Number(button.dataset.step)));
  document.getElementById("item-close").addEventListener("click", closeItem);
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => change({ query: search.value }, { push: false }), 120);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => {
    clearTimeout(waiting);
    change({ query: "", status: new Set(), pick: {}, split: false, check: false, selected: "", value: "", least: "", most: "" });
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
    const isTyping = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && state.item && !isTyping) closeItem();
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
    if (found && scroll) {
      done.then(() => {
        const opener = state.item && openerOf(state.item);
        document.getElementById(opener ? "browse" : "items").scrollIntoView({ behavior: "instant" });
        if (opener) reach(opener);
      });
    }
    return done;
  }
  addEventListener("popstate", () => {
    if (readAddress() || !location.hash) follow();
  });
  await follow({ scroll: true });
  heatMap(data, (pattern) => reveal({ selected: pattern }));
  root.dataset.ready = "items";
}

function savedColumns() {
  try {
    return Object.assign(Object.create(null), JSON.parse(stored("columns") || "{}"));
  } catch { // not JSON
    return Object.create(null);
  }
}

// The filter by a number of the items: its name, and bounds, which are yes and no for numbers that are all 0 or 1.
function valueChoice(data, state, change) {
  const names = Object.keys(data.values);
  const option = (text, value) => element("option", { value }, text);
  const name = element("select", { id: "value" }, option("any", ""), ...names.map((one) => option(words(one), one)));
  const flag = element("select", { id: "flag" }, option("yes or no", ""), option("yes", "1"), option("no", "0"));
  const bounds = ["least", "most"].map((side) => element("input", { type: "number", step: "any", id: side }));
  const [flagLabel, ...boundLabels] = [element("label", {}, "Is ", flag), element("label", {}, "At least ", bounds[0]), element("label", {}, "At most ", bounds[1])];
  name.addEventListener("change", () => change({ value: name.value, least: "", most: "" }));
  flag.addEventListener("change", () => change({ least: flag.value === "1" ? 1 : "", most: flag.value === "0" ? 0 : "" }));
  for (const bound of bounds) bound.addEventListener("input", () => change({ [bound.id]: bound.value === "" ? "" : Number(bound.value) }, { push: false }));

  function show() {
    const { value, pick } = state();
    const [low, high, isFlag] = data.values[value] || [];
    name.value = value;
    flagLabel.hidden = !isFlag;
    flag.value = state().least === 1 ? "1" : state().most === 0 ? "0" : "";
    bounds.forEach((bound, side) => {
      boundLabels[side].hidden = !value || isFlag;
      bound.placeholder = Number(Number([low, high][side] ?? 0).toPrecision(3));
      if (bound !== document.activeElement) bound.value = state()[bound.id];
    });
    // Only values of the chosen benchmark and task are offered.
    const fits = (places) => places.some(([benchmark, task]) => benchmark === (pick.benchmark ?? benchmark) && task === (pick.task ?? task));
    for (const one of [...name.options].slice(1)) one.hidden = !fits(data.values[one.value][3]);
  }
  return { show, labels: names.length ? [element("label", {}, "Value ", name), flagLabel, ...boundLabels] : [] };
}

// Called where the page ends and the texts of the items begin. Plots and tables are painted before the list is built.
function begin() {
  theme();
  document.getElementById("folded-filters").open = !matchMedia("(max-width: 44rem)").matches;
  document.querySelectorAll("table.sortable").forEach(sortable);
  requestAnimationFrame(() => setTimeout(() => items().catch((error) => {
    const text = "DecompressionStream" in window ? `The list of items cannot be shown: ${error.message}` : "The list of items needs a newer browser: Chrome 80, Firefox 113, Safari 16.4.";
    document.getElementById("count").textContent = text;
  })));
}
