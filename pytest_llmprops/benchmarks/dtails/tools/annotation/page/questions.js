"use strict";
// Draws a question. Texts come from data files, so they are inserted as text, never as markup.

// Control characters, direction overrides and tags are spelled out. Scripts need joiners and direction marks.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

function visible(text) {
  return text.replace(UNSEEN, (c) => {
    const code = c.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// A word in any language, in its own direction. Lines may break at the slashes between its forms.
const word = (text, code) => make("bdi", { lang: code }, visible(text).replaceAll("/", " / "));

const TEXTS = {
  select: (q, s) => ({
    ask: ["Which is the best translation of ", word(q.concept, "en"), " here?"],
    task: `Answer as if you were translating the English text into ${s.language}.`,
  }),
  missing: (q, s) => ({
    ask: [`Is a commonly used ${s.language} word for `, word(q.concept, "en"), " missing?"],
    task: `These words translate it in a corpus of translations from English into ${s.language}.`,
  }),
  wrong: (q) => ({
    ask: ["Which of these words do not mean ", word(q.concept, "en"), "?"],
    task: "Select each one that does not.",
  }),
  rule: (q, s) => ({
    ask: ["Is the rule for ", word(q.about, s.code), " correct?"],
    task: ["The rule should say when ", word(q.concept, "en"), " is translated by this word rather than by another of these:"],
  }),
};

const YES_NO = [["yes", "Yes", "y"], ["no", "No", "n"]];
const SURE = [["Absolutely sure", "Absolutely sure", "s"], ["Likely but uncertain", "Likely but uncertain", "l"], ["No idea", "No idea", "n"]];

// Returns the groups of inputs of a question: {column, legend, many, row, choices: [[answer, text, key]]}.
function groups(q, s) {
  const options = q.options.map((text, at) => [String(at + 1), text, at < 9 ? String(at + 1) : ""]);
  if (q.kind === "select") {
    return [
      { column: "choice", legend: "Best translation", choices: options, foreign: true },
      { column: "confidence", legend: "How confident are you that this is the correct translation?", choices: SURE, row: true },
    ];
  }
  if (q.kind === "wrong") {
    return [{ column: "answer", legend: "These do not mean it", many: true, foreign: true, choices: [...options, ["none", "All of them mean it", "0"]] }];
  }
  return [{ column: "answer", legend: q.kind === "rule" ? "The rule is correct" : "A word is missing", choices: YES_NO, row: true }];
}

// Returns the question as elements. `answer(column, text)` is called for each new answer.
function draw(q, s, answer) {
  const texts = TEXTS[q.kind](q, s);
  const parts = [
    make("p", { className: "kicker" }, `Question ${q.place} of ${s.questions.length}`),
    make("h1", { tabIndex: -1 }, ...texts.ask),
    make("p", { className: "task" }, ...[texts.task].flat()),
  ];
  if (q.kind === "missing" || q.kind === "rule") {
    parts.push(make("ul", { className: "words" }, ...q.options.map((text) => make("li", { className: text === q.about ? "about" : "" }, word(text, s.code)))));
  }
  // Sentences and rules are English, even if a rule begins with a right-to-left word.
  if (q.text) parts.push(make("blockquote", { dir: "ltr", lang: "en" }, visible(q.text)));
  if (q.problem) parts.push(make("p", { className: "note" }, visible(`The sheet has an invalid answer here: ${q.problem}.`)));
  for (const group of groups(q, s)) parts.push(fieldset(q, s, group, answer));
  if (q.kind === "missing") {
    const input = make("input", { type: "text", name: "which", dir: "auto", lang: s.code, maxLength: 1000, value: q.answers.which, autocomplete: "off" });
    let wait = 0;
    const send = () => { clearTimeout(wait); if (input.value !== q.answers.which) answer("which", input.value); };
    input.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(send, 400); });
    input.addEventListener("change", send);
    input.addEventListener("leave", send);
    parts.push(make("label", { className: "free" }, "If a word is missing, which one? (Optional)", input));
  }
  return parts;
}

function fieldset(q, s, group, answer) {
  const answers = q.answers[group.column].split(";");
  const box = make("div", { className: group.row ? "row" : "" });
  for (const [value, text, key] of group.choices) {
    const input = make("input", { type: group.many ? "checkbox" : "radio", name: group.column, value, checked: answers.includes(value) });
    if (key) input.setAttribute("aria-keyshortcuts", key.toUpperCase());
    input.dataset.key = key;
    input.addEventListener("change", () => {
      if (!group.many) return answer(group.column, value);
      const all = [...box.querySelectorAll("input")];
      const isNone = (one) => one.value === "none";
      if (input.checked) for (const other of all) if (isNone(other) !== isNone(input)) other.checked = false;
      return answer(group.column, all.filter((one) => one.checked).map((one) => one.value).join(";"));
    });
    const foreign = group.foreign && value !== "none";
    const shown = foreign ? word(text, s.code) : make("span", {}, text);
    shown.className = "word";
    box.append(make("label", { className: "choice" }, input, shown, ...(key ? [make("kbd", { ariaHidden: "true" }, key.toUpperCase())] : [])));
  }
  return make("fieldset", {}, make("legend", {}, group.legend), box);
}
