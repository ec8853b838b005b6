"use strict";
// Theme, sortable tables, and elements.
// Texts from models reach the page by textContent only.
const GLYPHS = { correct: "✓", wrong: "✗", refused: "⊘", unparsed: "?", untested: "–", error: "!" };
const root = document.documentElement;
const collator = new Intl.Collator(undefined, { numeric: true });

function stored(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`llmprops-${name}`);
    localStorage.setItem(`llmprops-${name}`, value);
  } catch { /* storage is blocked: the choice lasts for this view */ }
  return null;
}
const chosen = stored("theme");
if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

function theme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const show = () => button.setAttribute("aria-pressed", String(dark()));
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    stored("theme", root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}

function compare(a, b) {
  const [x, y] = [a.number, b.number];
  if (x !== null && y !== null) return x - y;
  if (x !== null || y !== null) return x !== null ? 1 : -1;
  return collator.compare(a.text, b.text);
}

// The place of each text in the sorted texts; equal texts have the same.
function rankOf(texts) {
  const distinct = [...new Set(texts)].sort(collator.compare);
  const ranks = new Map(distinct.map((text, rank) => [text, rank]));
  return texts.map((text) => ranks.get(text));
}

function turn(header) {
  const next = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  for (const other of header.parentNode.children) {
    if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", other === header ? next : "none");
  }
  return next === "ascending" ? 1 : -1;
}

function sortable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const sign = turn(header);
      const keyed = [...body.rows].map((row) => {
        const cell = row.cells[column];
        return { row, key: { number: "v" in cell.dataset ? Number(cell.dataset.v) : null, text: cell.textContent.trim() } };
      });
      keyed.sort((a, b) => sign * compare(a.key, b.key));
      body.append(...keyed.map((entry) => entry.row));
    });
  });
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
// dir=auto sets the direction of Arabic text; unicode-bidi in the style sheet applies it per line.
const foreign = (tag, text, more = {}) => element(tag, { dir: "auto", class: "text", ...more }, text);
const words = (name) => name.replaceAll("_", " ");
// A long id may break after a slash or a plus sign.
const breakable = (text) => text.split(/(?<=[/+])/).flatMap((part) => [part, document.createElement("wbr")]);
