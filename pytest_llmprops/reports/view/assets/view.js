"use strict";
// The list of runs. The server sends the rows that change; the filter, opened and chosen runs are in the address.
const AT_ONCE = 100;
const rows = new Map();
const lines = new Map();
const cards = new Map();
const table = document.getElementById("table");
const filter = document.getElementById("filter");
let facts = { places: [], opened: "", reports: "" };
let opened = new Set();
let most = AT_ONCE;
let isFirst = true;
let waiting = null;
const choice = comparison(rows, () => {
  draw();
  remember();
});

// The state in the address: `#q=gpt&open=…&compare=…`.
function recall() {
  const found = new URLSearchParams(location.hash.slice(1));
  filter.value = found.get("q") || "";
  opened = new Set((found.get("open") || "").split("-").filter(Boolean));
  waiting = (found.get("compare") || "").split("-").filter(Boolean);
}

function remember() {
  const query = new URLSearchParams();
  if (filter.value.trim()) query.set("q", filter.value.trim());
  if (opened.size) query.set("open", [...opened].join("-"));
  const chosen = choice.chosen();
  const baseline = choice.baseline();
  if (chosen.length) query.set("compare", (baseline ? [baseline, ...chosen.filter((id) => id !== baseline)] : chosen).join("-"));
  const text = query.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

const texts = (row) => [row.name, row.place, row.state, row.gate && `gate ${row.gate}`, row.started, ...row.models, ...row.parts.flatMap((part) => [part.model, part.benchmark])].join(" ").toLowerCase();

function order(a, b) {
  if ((a.state === "running") !== (b.state === "running")) return a.state === "running" ? -1 : 1;
  return a.started < b.started ? 1 : a.started > b.started ? -1 : collator.compare(a.name, b.name);
}

// Puts `nodes` into `parent` in this order, and moves only what is at another place.
function arrange(parent, nodes) {
  let place = parent.firstChild;
  for (const node of nodes) {
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function lineOf(row) {
  const [isOpen, isChosen] = [opened.has(row.id), choice.isChosen(row.id)];
  const known = lines.get(row.id);
  if (known && known.row === row && known.isOpen === isOpen && known.isChosen === isChosen) return known.nodes;
  const made = line(row, {
    isOpen, isChosen,
    toggle: () => {
      if (!opened.delete(row.id)) opened.add(row.id);
      draw();
      remember();
    },
    choose: () => choice.toggle(row.id),
  });
  const nodes = isOpen ? [made, detail(row)] : [made];
  const focus = known && known.nodes.some((node) => node.contains(document.activeElement)) ? document.activeElement.dataset.focus : "";
  if (known) {
    known.nodes[0].before(...nodes);
    known.nodes.forEach((node) => node.remove());
  }
  lines.set(row.id, { row, isOpen, isChosen, nodes });
  if (focus) nodes.map((node) => node.querySelector(`[data-focus="${focus}"]`)).find(Boolean)?.focus();
  return nodes;
}

function draw() {
  const wanted = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...rows.values()].filter((row) => wanted.every((word) => texts(row).includes(word))).sort(order);
  const shown = found.slice(0, most);
  arrange(table.tBodies[0], shown.flatMap(lineOf));
  table.hidden = !found.length;
  const many = (n) => `${n.toLocaleString("en")} run${n === 1 ? "" : "s"}`;
  document.getElementById("count").textContent = wanted.length ? `${found.length.toLocaleString("en")} of ${many(rows.size)}` : rows.size ? many(rows.size) : "";
  document.getElementById("more-line").hidden = found.length <= most;
  document.getElementById("more").textContent = `Show ${Math.min(AT_ONCE, found.length - most)} more of ${many(found.length)}`;
}

function drawCards() {
  // A run that ended while this page was open keeps its card.
  const shown = [...rows.values()].filter((row) => row.state === "running" || cards.has(row.id)).sort(order);
  for (const id of [...cards.keys()]) if (!rows.has(id)) cards.delete(id);
  for (const row of shown) {
    const known = cards.get(row.id);
    if (!known) cards.set(row.id, { ...card(row), row });
    else if (known.row !== row) {
      known.show(row);
      if (known.row.state === "running" && row.state !== "running") said(row.state === "killed" ? `${row.name} ended without finishing` : `${row.name} has finished: ${row.state}`);
      known.row = row;
    }
  }
  arrange(document.getElementById("cards"), shown.map((row) => cards.get(row.id).node));
  document.getElementById("running").hidden = !shown.length;
  const running = shown.filter((row) => row.state === "running");
  document.getElementById("running-title").textContent = running.length || !shown.length ? "Running" : "Just ended";
  const part = running.length && running[0].progress ? running[0].progress.share : null;
  document.title = `${running.length ? `${part === null ? "…" : `${Math.floor(100 * part)}%`} · ` : ""}Runs · llmprops`;
}

function receive(message) {
  if (message.facts) {
    facts = message.facts;
    const current = new Set(message.rows.map((row) => row.id));
    message.gone = [...rows.keys()].filter((id) => !current.has(id));
  }
  for (const row of message.rows) rows.set(row.id, row);
  for (const id of message.gone) {
    rows.delete(id);
    lines.delete(id);
  }
  document.getElementById("place").textContent = facts.places.join(", ");
  const problem = document.getElementById("problem");
  problem.textContent = [message.problem, facts.reports].filter(Boolean).join(" ");
  problem.hidden = !problem.textContent;
  const none = document.getElementById("none");
  none.hidden = rows.size > 0;
  none.replaceChildren(element("p", {}, message.reading ? "Reading the runs…" : `No runs under ${facts.places.join(" or ")} yet. The first one appears here when it starts:`),
    ...(message.reading ? [] : [element("p", {}, element("code", {}, "llmprops run htest --model MODEL"))]));
  if (isFirst && !message.reading) begin_();
  if (choice.chosen().length) choice.show();
  draw();
  drawCards();
  document.documentElement.dataset.ready = message.reading ? "reading" : "runs";
}

// What the address, or the command line, names is opened once the runs are there.
function begin_() {
  isFirst = false;
  const named = Boolean(location.hash);
  if (waiting.length) choice.choose(waiting, waiting[0]);
  if (named || !rows.has(facts.opened)) return;
  if (rows.get(facts.opened).state === "running") return;
  opened.add(facts.opened);
  draw();
  lines.get(facts.opened)?.nodes[0].scrollIntoView({ block: "nearest" });
}

// A hidden page is not brought up to date: a browser has few connections to one server.
let source = null;
function follow() {
  if (document.hidden) {
    source?.close();
    source = null;
    return;
  }
  if (source) return;
  const link = document.getElementById("link");
  source = new EventSource("events");
  source.addEventListener("open", () => {
    link.textContent = "live";
    link.dataset.state = "live";
  });
  source.addEventListener("message", (event) => receive(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    link.textContent = "no connection: start llmprops view again";
    link.dataset.state = "lost";
  });
}

function step(by) {
  const buttons = [...table.querySelectorAll("button.open")];
  const run = document.activeElement?.closest("tr")?.dataset.run;
  const at = buttons.findIndex((button) => button.closest("tr").dataset.run === run);
  buttons[at < 0 ? 0 : Math.max(0, Math.min(buttons.length - 1, at + by))]?.focus();
}

filter.addEventListener("input", () => {
  most = AT_ONCE;
  draw();
  remember();
});
document.getElementById("find").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("more").addEventListener("click", () => {
  most += AT_ONCE;
  draw();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape") {
    if (event.target === filter && filter.value) {
      filter.value = "";
      filter.dispatchEvent(new Event("input"));
    } else if (isTyping) event.target.blur();
    else if (opened.size) {
      opened.clear();
      draw();
      remember();
    }
  }
  if (isTyping) return;
  if (event.key === "/") {
    event.preventDefault();
    filter.focus();
  }
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  const run = document.activeElement?.closest("tr[data-run]")?.dataset.run;
  if (event.key === "x" && run && rows.get(run).state !== "unreadable") choice.toggle(run);
});
document.addEventListener("visibilitychange", follow);

theme();
recall();
follow();
