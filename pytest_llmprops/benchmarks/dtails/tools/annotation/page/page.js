"use strict";
// Shows one question at a time. Each answer is sent immediately and kept here until it is saved.

const at = (id) => document.getElementById(id);
const waiting = new Map(); // question number -> its unsaved answers
const tabs = "BroadcastChannel" in window ? new BroadcastChannel("sheet") : null;
let sheet = null;
let place = -1; // index of the question shown; questions.length for the end page
let sending = false;
let gone = false; // the server does not answer
let retry = 0; // the timer of the next attempt

const done = (q) => q.required.every((column) => q.answers[column]);
const count = () => sheet.questions.filter(done).length;
const shown = () => sheet.questions[place];

function nextOpen(from) {
  const total = sheet.questions.length;
  const start = from < total ? from : -1;
  for (let step = 1; step <= total; step += 1) {
    const other = (start + step) % total;
    if (!done(sheet.questions[other])) return other;
  }
  return -1;
}

async function load() {
  let state;
  try {
    state = await (await fetch("state")).json();
  } catch {
    return lost();
  }
  for (const [index, q] of state.questions.entries()) {
    q.place = index + 1;
    Object.assign(q.answers, waiting.get(q.number));
  }
  const before = sheet && shown() && JSON.stringify([shown().text, shown().answers, shown().problem]);
  const first = !sheet;
  const back = gone;
  gone = false;
  sheet = state;
  trouble(state.error);
  if (state.error) again();
  if (first) {
    document.title = `${sheet.task === "rules" ? "Rules and words" : "Choice of words"} · ${sheet.language}`;
    at("title").textContent = document.title;
    at("list").append(...sheet.questions.map((q, index) => {
      const button = make("button", { type: "button" }, String(q.place));
      button.addEventListener("click", () => go(index));
      return make("li", {}, button);
    }));
    follow();
  } else if (back || (shown() && document.activeElement?.name !== "which" && before !== JSON.stringify([shown().text, shown().answers, shown().problem]))) {
    render();
  }
  status();
  return undefined;
}

// The address has the question's number, so the browser's Back and Reload work.
function follow() {
  const named = sheet.questions.findIndex((q) => location.hash === `#${q.number}`);
  const open = nextOpen(-1);
  place = named >= 0 ? named : location.hash === "#done" || open < 0 ? sheet.questions.length : open;
  history.replaceState(null, "", shown() ? `#${shown().number}` : "#done");
  render();
}

function go(to) {
  document.activeElement?.dispatchEvent(new Event("leave"));
  const hash = to < sheet.questions.length ? `#${sheet.questions[to].number}` : "#done";
  // location.hash takes effect later: a key pressed immediately would answer the previous question.
  if (location.hash !== hash) history.pushState(null, "", hash);
  follow();
}

function render() {
  const q = shown();
  at("main").replaceChildren(...(q ? draw(q, sheet, (column, text) => answer(q, column, text)) : thanks()));
  at("turn").hidden = false;
  for (const input of at("main").querySelectorAll("input")) input.disabled = gone;
  for (const [index, button] of [...at("list").querySelectorAll("button")].entries()) {
    button.toggleAttribute("aria-current", index === place);
  }
  status();
  at("main").querySelector("h1").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function thanks() {
  const left = sheet.questions.length - count();
  const say = left ? `${left} of ${sheet.questions.length} questions are still open.` : "All questions are answered. Thank you!";
  const more = left ? "Continue with “Next open question”." : "You can close this page, or go back and change an answer.";
  return [make("p", { className: "kicker" }, "End of the sheet"), make("h1", { tabIndex: -1 }, say), make("p", { className: "task" }, more)];
}

function status() {
  const total = sheet.questions.length;
  const answered = count();
  at("count").textContent = `${answered} of ${total} answered`;
  at("progress").max = total;
  at("progress").value = answered;
  at("back").disabled = place === 0;
  at("next").disabled = place === total;
  at("next").textContent = place === total - 1 ? "Finish" : "Next";
  at("next").classList.toggle("ready", Boolean(shown()) && done(shown()));
  const open = nextOpen(place);
  at("open").hidden = open < 0 || open === place || open === place + 1;
  for (const [index, button] of [...at("list").querySelectorAll("button")].entries()) {
    const q = sheet.questions[index];
    button.classList.toggle("done", done(q));
    button.ariaLabel = `Question ${q.place}, ${visible(q.concept)}, ${done(q) ? "answered" : "open"}`;
  }
  at("saved").textContent = waiting.size
    ? gone || at("trouble").textContent ? `Not saved yet: ${waiting.size} answered question${waiting.size > 1 ? "s" : ""}.` : "Saving …"
    : `All answers are saved in ${visible(sheet.sheet)}. You can close this page and come back later.`;
  document.body.dataset.saved = String(!waiting.size);
}

function trouble(text) {
  const message = text ? visible(text) : "";
  if (at("trouble").textContent !== message) at("trouble").textContent = message;
  at("trouble").hidden = !message;
}

function lost() {
  gone = true;
  trouble("The program behind this page has stopped, so answers cannot be saved. Start it again with `llmprops dtails page` and open the address that it prints.");
  for (const input of at("main").querySelectorAll("input")) input.disabled = true;
  if (sheet) status();
  again();
}

function again() {
  clearTimeout(retry);
  retry = setTimeout(() => (waiting.size ? send() : load()), 3000);
}

function answer(q, column, text) {
  q.answers[column] = text.trim();
  q.problem = "";
  waiting.set(q.number, { ...waiting.get(q.number), [column]: q.answers[column] });
  send();
  status();
}

async function send() {
  if (sending || !waiting.size) return;
  sending = true;
  const [number, answers] = waiting.entries().next().value;
  let response;
  try {
    response = await fetch("answer", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ question: number, answers }),
      keepalive: true,
    });
    response.result = await response.json();
  } catch {
    sending = false;
    return lost();
  }
  sending = false;
  const { saved, error } = response.result;
  // Answers given in the meantime are in another object and are sent next.
  const same = waiting.get(number) === answers;
  if (saved && same) waiting.delete(number);
  if (saved && tabs) tabs.postMessage(number);
  if (gone && saved) {
    gone = false;
    render();
  }
  const refused = !saved && response.status === 422;
  if (refused && same) waiting.delete(number);
  trouble(saved ? "" : `${refused ? "This answer is not valid" : "Your answer is not saved yet; saving is retried"}: ${error}`);
  status();
  if (saved || refused) return send();
  return again();
}

function onKey(event) {
  if (!sheet || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.type === "text" && event.key !== "Enter") return;
  if (event.target.closest("button, a, summary") && (event.key === "Enter" || event.key === " ")) return;
  if (event.key === "Enter") {
    if (place < sheet.questions.length) go(place + 1);
  } else if (event.target.type !== "radio" && event.key === "ArrowRight" && place < sheet.questions.length) {
    go(place + 1);
  } else if (event.target.type !== "radio" && event.key === "ArrowLeft" && place > 0) {
    go(place - 1);
  } else {
    // On layouts without Latin letters or digits, use the position of the key.
    const key = /^[\x21-\x7e]$/.test(event.key) ? event.key.toLowerCase() : event.code.replace(/^(Key|Digit|Numpad)/, "").toLowerCase();
    const input = [...at("main").querySelectorAll("input[data-key]")].find((one) => one.dataset.key === key);
    if (!key || !input || input.disabled) return;
    input.focus();
    input.click();
  }
  event.preventDefault();
}

at("back").addEventListener("click", () => go(place - 1));
at("next").addEventListener("click", () => go(place + 1));
at("open").addEventListener("click", () => go(nextOpen(place)));
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", follow);
window.addEventListener("focus", () => sheet && load());
window.addEventListener("pagehide", () => document.activeElement?.dispatchEvent(new Event("leave")));
window.addEventListener("beforeunload", (event) => {
  document.activeElement?.dispatchEvent(new Event("leave"));
  if (waiting.size && (gone || at("trouble").textContent)) event.preventDefault();
});
tabs?.addEventListener("message", () => sheet && load());
load();
