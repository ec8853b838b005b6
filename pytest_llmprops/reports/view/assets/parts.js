"use strict";
// The parts of the page: the card of a run that goes on, the line of a run in the list, and its details.
// All texts come from the server and reach the page by textContent.
const STATES = {
  running: "▶", complete: "✓", incomplete: "◐", killed: "✗", unreadable: "!",
};
const MOST_RESULTS = 4;

const stateOf = (row) => element("span", { class: `state ${row.state.replace(" ", "-")}` },
  element("span", { "aria-hidden": "true" }, `${STATES[row.state] || "?"} `), row.state);

function term(name, value, more = null) {
  return element("div", {}, element("dt", {}, name), element("dd", {}, value, more && element("small", {}, ` ${more}`)));
}

// Counts by model and benchmark.
function partsTable(row) {
  const names = [...new Set(row.parts.flatMap((part) => Object.keys(part.counts)))];
  const spent = row.parts.some((part) => part.calls);
  const number = (text) => element("td", { class: "num" }, text || "–");
  const limits = row.parts.some((part) => part.interval);
  const headings = [["Model"], ["Benchmark"], ["Accuracy", "num"], ...(limits ? [["95% interval", "num"]] : []),
    ...names.map((name) => [name, "num"]), ...(spent ? [["Calls", "num"], ["Cost", "num"]] : [])];
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${row.name} by model and benchmark, table` },
    element("table", { class: "parts" },
      element("thead", {}, element("tr", {}, ...headings.map(([name, kind]) => element("th", { scope: "col", class: kind || null }, name)))),
      element("tbody", {}, ...row.parts.map((part) => element("tr", {},
        element("th", { scope: "row" }, part.model), element("td", {}, part.benchmark), number(part.accuracy), ...(limits ? [number(part.interval)] : []),
        ...names.map((name) => number(part.counts[name])), ...(spent ? [number(part.calls), number(part.cost)] : []))))));
}

function remarksOf(row) {
  const lines = row.remarks.map((text) => element("li", {}, text));
  return lines.length ? element("ul", { class: "warnings" }, ...lines) : null;
}

function commandLine(text) {
  const button = element("button", { type: "button", class: "copy", "data-focus": "copy" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      said("Command copied");
    } catch {
      said("The command could not be copied");
    }
  });
  return element("p", { class: "tools again" }, element("code", {}, text), button);
}

function said(text) {
  document.getElementById("said").replaceChildren(text);
}

function reportLink(row, text) {
  if (row.state === "unreadable") return null;
  if (facts.reports) return element("span", { class: "off", title: facts.reports }, text);
  return element("a", { href: `reports/${row.id}/`, "data-focus": "report", "aria-label": `${text}: ${row.name}` }, text);
}

// The card of a run. `show` brings it up to date without replacing what may have the focus.
function card(first) {
  const bar = element("progress", { "aria-label": `Cases of ${first.name}` });
  const [done, state, figures, table, remarks, go] = ["p", "span", "dl", "div", "div", "p"].map((tag) => element(tag));
  done.className = "done";
  figures.className = "figures";
  go.className = "go";
  const node = element("article", { class: "run-card", "aria-labelledby": `card-${first.id}` },
    element("header", {}, element("h3", { id: `card-${first.id}` }, first.name), state), done, bar, figures, table, remarks, go);
  let linked = "";
  const show = (row) => {
    const { progress } = row;
    node.className = `run-card ${row.state.replace(" ", "-")}`;
    state.replaceChildren(stateOf(row));
    const share = progress ? progress.share : 1;
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    done.replaceChildren(...(progress
      ? [element("strong", {}, progress.done), ` of ${progress.expected} cases`, progress.left ? element("span", { class: "left" }, progress.left) : ""]
      : [element("strong", {}, row.items), " items"]));
    figures.replaceChildren(
      ...Object.entries(row.counts).map(([name, text]) => term(name, text)),
      term("Cost", row.cost), ...(progress ? [term("Calls", progress.calls, progress.speed)] : []), ...(row.gate ? [term("Gate", row.gate)] : []));
    table.replaceChildren(...(row.parts.length ? [partsTable(row)] : []));
    remarks.replaceChildren(...[remarksOf(row), row.command ? commandLine(row.command) : null].filter(Boolean));
    const text = progress ? "Report on the cases so far" : "Open the report";
    if (linked !== text + row.state) {
      linked = text + row.state;
      go.replaceChildren(reportLink(row, text) || "");
    }
  };
  show(first);
  return { node, show };
}

function results(row) {
  const several = new Set(row.parts.map((part) => part.benchmark)).size > 1;
  const lines = row.parts.slice(0, MOST_RESULTS).map((part) => element("li", {},
    element("span", { class: "who" }, part.model, several ? element("small", {}, ` ${part.benchmark}`) : null),
    element("span", { class: "what" }, element("strong", {}, part.accuracy), part.interval ? ` ${part.interval}` : "")));
  const rest = row.parts.length - MOST_RESULTS;
  if (rest > 0) lines.push(element("li", { class: "note" }, `and ${rest} more`));
  if (!lines.length) return [element("span", { class: "note" }, row.models.join(", ") || row.remarks[0] || "–")];
  return [element("ul", { class: "shares" }, ...lines)];
}

// The line of a run in the list.
function line(row, { isOpen, isChosen, toggle, choose }) {
  const name = element("button", { type: "button", class: "open", "aria-expanded": String(isOpen), "data-focus": "open" }, ...breakable(row.name));
  name.addEventListener("click", toggle);
  const pick = element("input", { type: "checkbox", "aria-label": `Compare ${row.name}`, "data-focus": "pick" });
  pick.checked = isChosen;
  pick.disabled = row.state === "unreadable";
  pick.addEventListener("change", choose);
  // Several benchmarks are named next to their accuracies.
  const named = [...new Set(row.parts.map((part) => part.benchmark))];
  const benchmarks = named.length === 1 ? named[0] : "";
  const about = [row.started, row.place, benchmarks, row.progress && row.progress.left].filter(Boolean).join(" · ");
  const items = row.progress ? `${row.progress.done} of ${row.progress.expected}` : row.items;
  return element("tr", { class: isOpen ? "is-open" : null, "data-run": row.id },
    element("td", { class: "pick" }, pick),
    element("th", { scope: "row", class: "name" }, name, element("span", { class: "note about-run" }, stateOf(row), about ? ` · ${about}` : "")),
    element("td", { class: "results" }, ...results(row)),
    element("td", { class: "num n-items" }, items),
    element("td", { class: "num n-errors" }, row.counts.Errors || "–"),
    element("td", { class: "num cost" }, row.cost),
    element("td", { class: "gate-cell" }, row.gate ? element("span", { class: `decision ${row.gate}` }, row.gate) : ""),
    element("td", { class: "go" }, reportLink(row, "Report") || ""));
}

function detail(row) {
  const list = element("dl", { class: "figures" }, term("Items", row.items),
    ...Object.entries(row.counts).map(([name, text]) => term(name, text)),
    term("Cost", row.cost), ...(row.gate ? [term("Gate", row.gate)] : []));
  const inside = element("div", { class: "inside" }, list, ...(row.parts.length ? [partsTable(row)] : []),
    ...[remarksOf(row), row.command ? commandLine(row.command) : null].filter(Boolean),
    element("p", { class: "note path" }, `Record: ${row.path}`));
  return element("tr", { class: "detail" }, element("td", { colspan: "8" }, inside));
}
