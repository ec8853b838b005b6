// The live part of the page: the cards of runs that go on. All texts reach the page by textContent.
const STATES = { running: "▶", complete: "✓", incomplete: "◐", killed: "✗" };
const cards = new Map();
let shownSite = null;

function term(name, value, more = "") {
  return element("div", {}, element("dt", {}, name), element("dd", {}, value, more && element("small", {}, ` ${more}`)));
}

// Counts by model and benchmark.
function partsTable(row) {
  const names = [...new Set(row.parts.flatMap((part) => Object.keys(part.counts)))];
  const number = (text) => element("td", { class: "num" }, text || "–");
  const headings = ["Model", "Benchmark", "Accuracy", ...names];
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${row.name} by model and benchmark, table` },
    element("table", {},
      element("thead", {}, element("tr", {}, ...headings.map((name, n) => element("th", { scope: "col", class: n > 1 ? "num" : null }, name)))),
      element("tbody", {}, ...row.parts.map((part) => element("tr", {},
        element("th", { scope: "row" }, part.model), element("td", {}, part.benchmark), number(part.accuracy),
        ...names.map((name) => number(part.counts[name])))))));
}

// The card of a run. `show` brings it up to date without replacing the link, which may have the focus.
function card(row) {
  const bar = element("progress", { "aria-label": `Cases of ${row.name}` });
  const [state, done, figures, more] = [element("span"), element("p", { class: "done" }), element("dl", { class: "facts" }), element("div")];
  const link = element("a", { href: `reports/${row.id}/run/report.html` });
  const node = element("article", { "aria-labelledby": `card-${row.id}` },
    element("header", {}, element("h3", { id: `card-${row.id}` }, row.name), state), done, bar, figures, more, element("p", {}, link));
  const show = (now) => {
    const { progress } = now;
    node.className = `run-card ${now.state}`;
    state.replaceChildren(element("span", { "aria-hidden": "true" }, `${STATES[now.state] || "?"} `), now.state);
    if (progress.share === null) bar.removeAttribute("value");
    else bar.value = progress.share;
    done.replaceChildren(element("strong", {}, progress.done), ` of ${progress.expected} cases`, progress.left ? ` · ${progress.left}` : "");
    figures.replaceChildren(...Object.entries(now.counts).map(([name, text]) => term(name, text)),
      term("Cost", now.cost), term("Calls", progress.calls, progress.speed), ...(now.gate ? [term("Gate", now.gate)] : []));
    more.replaceChildren(...(now.parts.length ? [partsTable(now)] : []),
      ...(now.remarks.length ? [element("ul", { class: "warnings" }, ...now.remarks.map((text) => element("li", {}, text)))] : []),
      ...(now.command ? [element("p", {}, element("code", {}, now.command))] : []));
    link.textContent = now.state === "running" ? "Report on the cases so far" : "Open the report";
  };
  return { node, show };
}

function drawCards(shown) {
  for (const [id, known] of cards) {
    if (!shown.some((row) => row.id === id)) {
      known.node.remove();
      cards.delete(id);
    }
  }
  for (const row of shown) {
    if (!cards.has(row.id)) {
      cards.set(row.id, card(row));
      document.getElementById("cards").append(cards.get(row.id).node);
    }
    const known = cards.get(row.id);
    if (known.row && known.row.state === "running" && row.state !== "running") {
      document.getElementById("said").textContent = row.state === "killed" ? `${row.name} ended without finishing` : `${row.name} has finished: ${row.state}`;
    }
    known.row = row;
    known.show(row);
  }
  const running = shown.filter((row) => row.state === "running");
  document.getElementById("running").hidden = !shown.length;
  document.getElementById("running-title").textContent = running.length ? "Running" : "Just ended";
  const share = running.length ? running[0].progress.share : null;
  const finding = document.getElementById("finding").textContent.replace(/\.$/, "");
  document.title = `${running.length ? `${share === null ? "…" : `${Math.floor(100 * share)}%`} · ` : ""}${finding} · llmprops`;
}

// The rest of the page was written anew.
async function renew() {
  const text = await (await fetch("./")).text();
  const found = new DOMParser().parseFromString(text, "text/html");
  for (const selector of ["#site", "header nav"]) document.querySelector(selector).replaceWith(found.querySelector(selector));
  document.querySelectorAll("table.sortable").forEach(sortable);
}

async function receive(message) {
  const problem = document.getElementById("problem");
  problem.textContent = message.problem;
  problem.hidden = !message.problem;
  if (message.site !== shownSite) {
    shownSite = message.site;
    await renew();
  }
  drawCards(message.rows);
  root.dataset.ready = message.reading ? "reading" : "runs";
}

// A hidden page is not brought up to date: a browser has few connections to one server.
let source = null;
function follow() {
  const link = document.getElementById("link");
  const state = (text, name) => {
    link.textContent = text;
    link.dataset.state = name;
  };
  const connect = () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source) {
      source = new EventSource("events");
      source.addEventListener("open", () => state("live", "live"));
      source.addEventListener("message", (event) => receive(JSON.parse(event.data)));
      source.addEventListener("error", () => state("no connection: start llmprops view again", "lost"));
    }
  };
  document.addEventListener("visibilitychange", connect);
  connect();
}
