// The list of items: search, filters, pages, and each item with its prompts and replies.
const PER_PAGE = 50;

function items() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = Object.fromEntries(data.fields.map((name, index) => [name, index]));
  const name = (row, field) => data[field][row[at[field]]];
  const facets = ["series", "benchmark", "task", "language", "source"].filter((field) => data[field].length > 1);
  const titles = { series: "Model", benchmark: "Benchmark", task: "Task", language: "Language", source: "Items from" };
  const state = { query: "", status: new Set(), pick: {}, split: false, page: 0, order: null, shown: data.rows };
  const list = document.getElementById("list");
  const search = document.getElementById("search");
  const several = data.series.length > 1;
  const columns = ["status", "id", ...(several ? ["series"] : []), "task", "language", "expected", "given"];
  const headings = { status: "Status", id: "Item", expected: "Expected", given: "Given", ...titles };
  const optional = new Set(["task", "language", "expected"]);
  let haystacks = null;
  let twins = null;

  function haystack(row, index) {
    if (!haystacks) haystacks = new Array(data.rows.length);
    return (haystacks[index] ??= [
      row[at.id], row[at.expected], row[at.given], row[at.reason],
      ...row[at.calls].flatMap((call) => [call[2], ...call[1].map(([, held]) => held[1])]),
    ].join("\n").toLowerCase());
  }

  function matches(row, except) {
    if (except !== "status" && state.status.size && !state.status.has(name(row, "status"))) return false;
    if (state.split && !splits(row)) return false;
    return facets.every((f) => !state.pick[f] || String(row[at[f]]) === state.pick[f]);
  }

  function refresh() {
    const query = state.query.trim().toLowerCase();
    const matching = data.rows.filter((row, i) => matches(row) && (!query || haystack(row, i).includes(query)));
    const order = state.order || { column: "status", sign: 1 };
    const key = (row) => {
      if (order.column === "status") return { number: row[at.status], text: "" };
      const text = order.column in data && order.column !== "id" ? name(row, order.column) : row[at[order.column]];
      return { number: null, text };
    };
    const keyed = matching.map((row) => ({ row, key: key(row) }));
    keyed.sort((a, b) => order.sign * compare(a.key, b.key));
    state.shown = keyed.map((entry) => entry.row);
    state.page = 0;
    chips();
    draw();
  }

  function chips() {
    const counts = new Map(data.status.map((s) => [s, 0]));
    for (const row of data.rows) {
      if (matches(row, "status")) counts.set(name(row, "status"), counts.get(name(row, "status")) + 1);
    }
    for (const chip of document.getElementById("chips").children) {
      const status = chip.dataset.status;
      chip.setAttribute("aria-pressed", String(state.status.has(status)));
      chip.querySelector("b").textContent = counts.get(status).toLocaleString("en");
    }
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(state.shown.length / PER_PAGE));
    const from = state.page * PER_PAGE;
    list.tBodies[0].replaceChildren(...state.shown.slice(from, from + PER_PAGE).map(line));
    const total = data.rows.length.toLocaleString("en");
    const shown = state.shown.length.toLocaleString("en");
    document.getElementById("count").textContent = `${shown} of ${total} items`;
    document.getElementById("pages").hidden = pages < 2;
    document.getElementById("page").textContent = `Page ${state.page + 1} of ${pages}`;
    document.getElementById("previous").disabled = state.page === 0;
    document.getElementById("next").disabled = state.page >= pages - 1;
  }

  // Narrow windows hide columns; a colspan above the number of visible columns would squeeze the others.
  const visible = () => [...list.tHead.rows[0].cells].filter((cell) => cell.offsetParent).length;

  function line(row) {
    const status = name(row, "status");
    const cells = columns.map((column) => {
      const attributes = { class: optional.has(column) ? `optional ${column}` : column };
      if (column === "status") {
        return element("td", attributes, element("span", { class: `mark ${status}` },
          element("span", { "aria-hidden": "true" }, GLYPHS[status]), element("span", { class: "word" }, ` ${status}`)));
      }
      if (column === "id") {
        return element("th", { ...attributes, scope: "row" },
          element("button", { type: "button", "aria-expanded": "false", class: "open" }, ...breakable(row[at.id])));
      }
      if (column === "expected" || column === "given") {
        return element("td", attributes, foreign("span", row[at[column]].slice(0, 300), { class: "text clip" }));
      }
      return element("td", attributes, column === "series" ? name(row, column) : words(name(row, column)));
    });
    const made = element("tr", {}, ...cells);
    made.querySelector(".open").addEventListener("click", (event) => {
      const open = event.currentTarget.getAttribute("aria-expanded") === "true";
      event.currentTarget.setAttribute("aria-expanded", String(!open));
      if (open) made.nextSibling.remove();
      else made.after(element("tr", { class: "detail" }, element("td", { colspan: visible() }, detail(row))));
    });
    return made;
  }

  function detail(row) {
    const facts = element("dl", { class: "answer" });
    const add = (title, value) => facts.append(element("div", {}, element("dt", {}, title), element("dd", {}, value)));
    add("Expected", foreign("span", row[at.expected] || "–"));
    add("Given", foreign("span", row[at.given] || "–"));
    if (row[at.reason]) add("Reason", foreign("span", row[at.reason]));
    const values = Object.entries(row[at.values] || {});
    if (values.length) add("Values", values.map(([key, value]) => `${words(key)} ${value}`).join(", "));
    add("Task", `${words(name(row, "task"))}, ${name(row, "language")}, items from ${name(row, "source")}`);
    const calls = row[at.calls].flatMap((call, number) => exchange(call, number, row[at.calls].length));
    const more = row[at.calls_left_out];
    if (more) calls.push(element("p", { class: "note" }, `${more.toLocaleString("en")} further call${more > 1 ? "s" : ""} in the run's requests.jsonl.`));
    if (!calls.length) calls.push(element("p", { class: "note" }, "No prompt or reply was recorded for this item."));
    return element("div", { class: "inside" }, facts, ...calls, others(row));
  }

  function exchange([role, messages, reply, remarks], number, of) {
    const who = role === "subject" ? "" : ` of the helper ${role}`;
    const count = of > 1 ? ` ${number + 1} of ${of}` : "";
    const parts = messages.map(([speaker, [prefix, rest]]) => {
      const text = element("div", { class: "said" });
      if (prefix >= 0) {
        const held = data.prefixes[prefix];
        text.append(element("details", {}, element("summary", {}, `${held.length.toLocaleString("en")} characters at the beginning of every item of the task`), foreign("pre", held)));
      }
      text.append(foreign("pre", rest));
      const title = speaker === "user" ? `Prompt${who}${count}` : speaker === "assistant" ? "Earlier reply" : words(speaker);
      return element("section", { class: `turn ${speaker === "assistant" ? "reply" : ""}` }, element("h4", {}, title), text);
    });
    const heading = element("h4", {}, `Reply${who}${count}`, remarks ? element("small", {}, ` ${remarks}`) : null);
    const said = reply ? foreign("pre", reply) : element("p", { class: "note" }, "(empty)");
    parts.push(element("section", { class: "turn reply" }, heading, said));
    return parts;
  }

  const correct = data.status.indexOf("correct");

  // The same item in all models and runs.
  function sameItem(row) {
    const key = (one) => `${one[at.benchmark]}\n${one[at.source]}\n${one[at.id]}`;
    twins ??= Map.groupBy ? Map.groupBy(data.rows, key) : data.rows.reduce(
      (map, one) => map.set(key(one), [...(map.get(key(one)) || []), one]), new Map());
    return twins.get(key(row));
  }

  // Correct for one model and not for another.
  function splits(row) {
    const right = row[at.status] === correct;
    return sameItem(row).some((other) => (other[at.status] === correct) !== right);
  }

  function others(row) {
    const same = sameItem(row).filter((other) => other !== row);
    if (!same.length) return null;
    return element("section", { class: "turn" }, element("h4", {}, "The same item elsewhere"), element("ul", { class: "others" },
      ...same.map((other) => element("li", {}, element("span", { class: `mark ${name(other, "status")}` }, `${GLYPHS[name(other, "status")]} ${name(other, "status")}`),
        ` ${name(other, "series")} `, foreign("span", other[at.given].slice(0, 200))))));
  }

  // Parts that do not change are built once.
  list.tHead.append(element("tr", {}, ...columns.map((column) => {
    const header = element("th", { scope: "col", "aria-sort": "none", class: optional.has(column) ? `optional ${column}` : column },
      element("button", { type: "button" }, headings[column]));
    header.firstChild.addEventListener("click", () => {
      state.order = { column, sign: turn(header) };
      refresh();
    });
    return header;
  })));
  document.getElementById("selects").append(...facets.map((field) => {
    const select = element("select", { "data-field": field }, element("option", { value: "" }, "all"),
      ...data[field].map((text, index) => element("option", { value: index }, field === "series" ? text : words(text))));
    select.addEventListener("change", () => {
      state.pick[field] = select.value;
      refresh();
    });
    return element("label", {}, `${titles[field]} `, select);
  }));
  if (several) {
    const select = element("select", {}, element("option", { value: "" }, "all items"), element("option", { value: "split" }, "right for some models only"));
    select.addEventListener("change", () => {
      state.split = select.value === "split";
      refresh();
    });
    document.getElementById("selects").append(element("label", {}, "Between models ", select));
  }
  document.getElementById("chips").append(...data.status.map((status) => {
    const chip = element("button", { type: "button", class: `chip mark ${status}`, "data-status": status, "aria-pressed": "false" },
      element("span", { "aria-hidden": "true" }, GLYPHS[status]), ` ${status} `, element("b"));
    chip.addEventListener("click", () => {
      if (!state.status.delete(status)) state.status.add(status);
      refresh();
    });
    return chip;
  }));
  new ResizeObserver(() => {
    for (const cell of list.querySelectorAll(".detail > td")) cell.colSpan = visible();
  }).observe(list);
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.query = search.value;
      refresh();
    }, 120);
  });
  const form = document.getElementById("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => {
    state.query = "";
    state.status.clear();
    state.pick = {};
    state.split = false;
    refresh();
  });
  for (const [id, step] of [["previous", -1], ["next", 1]]) {
    document.getElementById(id).addEventListener("click", () => {
      state.page += step;
      draw();
      document.getElementById("items-title").scrollIntoView();
    });
  }
  document.querySelectorAll("[data-filter]").forEach((button) => button.addEventListener("click", () => {
    form.reset();
    const wanted = JSON.parse(button.dataset.filter);
    if (wanted.status) state.status.add(wanted.status);
    for (const select of form.querySelectorAll("select[data-field]")) {
      const field = select.dataset.field;
      if (!(field in wanted)) continue;
      const index = field === "series" ? wanted[field] : String(data[field].indexOf(wanted[field]));
      select.value = state.pick[field] = index;
    }
    refresh();
    document.getElementById("items").scrollIntoView();
    document.getElementById("items-title").focus({ preventScroll: true });
  }));
  refresh();
  root.dataset.ready = "items";
}
