// One item: its prompts and replies, or two replies side by side.
const money = (usd) => `${usd === null ? "cost not known" : `${usd.toPrecision(usd ? 3 : 1)} USD`}`;

function mark(status) {
  return element("span", { class: `mark ${status}` },
    element("span", { "aria-hidden": "true" }, GLYPHS[status]), element("span", { class: "word" }, ` ${status}`));
}

function said(text) {
  return document.getElementById("said").replaceChildren(text);
}

async function copied(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no permission, or not a secure page
    const area = element("textarea", { class: "hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  said(`${what} copied`);
}

function copyButton(title, text) {
  const button = element("button", { type: "button", class: "copy" }, `Copy ${title}`);
  button.addEventListener("click", () => copied(text(), title[0].toUpperCase() + title.slice(1)));
  return button;
}

function usageLine(text) {
  const [sent, received, seconds, cost] = usageOf(text);
  if (!text[TEXT.calls].length) return null;
  const tokens = sent + received ? `${sent.toLocaleString("en")} + ${received.toLocaleString("en")} tokens` : "tokens not known";
  return element("p", { class: "note usage" }, [tokens, `${seconds.toFixed(2)} s`, money(cost)].join(" · "));
}

function details(data, reviews) {
  const prompt = ([prefix, rest], chunk) => (prefix >= 0 ? chunk.prefixes[prefix] : "") + rest;

  function facts(row, text, { given = true } = {}) {
    const list = element("dl", { class: "answer" });
    const add = (title, value, more = {}) => list.append(element("div", more, element("dt", {}, title), element("dd", {}, value)));
    if (given) {
      add("Verdict", mark(data.name(row, "status")));
      if (data.series.length > 1) add("Model", data.name(row, "series"));
    }
    add("Expected", foreign("span", text[TEXT.expected] || "–"));
    if (given) add("Given", foreign("span", text[TEXT.given] || "–"));
    if (given && text[TEXT.reason]) add("Reason", foreign("span", text[TEXT.reason]));
    if (given && text[TEXT.reading]) add("Read by", foreign("span", text[TEXT.reading]));
    add("Task", `${words(data.name(row, "task"))}, ${data.name(row, "language")}, items from ${data.name(row, "source")}`);
    const values = Object.entries(text[TEXT.values] || {});
    if (given && values.length) add("Values", values.map(([key, value]) => `${words(key)} ${Number(Number(value).toPrecision(6))}`).join(", "), { class: "values" });
    return list;
  }

  const firstCall = (text) => text[TEXT.calls].find((call) => call[0] === "subject") || text[TEXT.calls][0];
  const promptOf = (text, chunk) => firstCall(text)?.[1].map(([, held]) => prompt(held, chunk)).join("\n\n");

  // Buttons that copy, and the command that measures this item again.
  function tools(row, text, chunk, link) {
    const bar = element("p", { class: "tools" });
    if (firstCall(text)) bar.append(copyButton("prompt", () => promptOf(text, chunk)));
    bar.append(copyButton("reply", () => replyOf(text)), copyButton("link", link));
    const command = commandOf(data, row);
    if (command) {
      bar.append(copyButton("command", () => command));
      return [bar, element("p", { class: "note again" }, "Run this case again: ", element("code", {}, command))];
    }
    return [bar];
  }

  // The end of a title: whose call it is, and its number.
  const which = (role, number, of) => (role === "subject" ? "" : ` of the helper ${role}`) + (of > 1 ? ` ${number + 1} of ${of}` : "");

  function prompts([role, messages], chunk, number, of) {
    return messages.map(([speaker, [prefix, rest]]) => {
      const text = element("div", { class: "said" });
      if (prefix >= 0) {
        const held = chunk.prefixes[prefix];
        text.append(element("details", {}, element("summary", {}, `${held.length.toLocaleString("en")} characters at the start, shared with other prompts`), foreign("pre", held)));
      }
      text.append(foreign("pre", rest));
      const title = speaker === "user" ? `Prompt${which(role, number, of)}` : speaker === "assistant" ? "Earlier reply" : words(speaker);
      return element("section", { class: `turn ${speaker === "assistant" ? "reply" : ""}` }, element("h3", {}, title), text);
    });
  }

  function exchange(call, chunk, number, of) {
    const [role, , reply, remarks, , thoughts] = call;
    const parts = prompts(call, chunk, number, of);
    if (thoughts) {
      const [length, thought] = thoughts;
      parts.push(element("details", { class: "thoughts" }, element("summary", {}, `Thoughts (${length.toLocaleString("en")} characters)`), foreign("pre", thought)));
    }
    const heading = element("h3", {}, `Reply${which(role, number, of)}`, remarks ? element("small", {}, ` ${remarks}`) : null);
    const answer = reply ? foreign("pre", reply) : element("p", { class: "note" }, "(empty)");
    parts.push(element("section", { class: "turn reply" }, heading, answer));
    return parts;
  }

  function exchanges(text, chunk) {
    const calls = text[TEXT.calls].flatMap((call, number) => exchange(call, chunk, number, text[TEXT.calls].length));
    const more = text[TEXT.left_out];
    if (more) calls.push(element("p", { class: "note" }, `${more.toLocaleString("en")} further call${more > 1 ? "s" : ""} in the run's requests.jsonl.`));
    if (!calls.length) calls.push(element("p", { class: "note" }, "No prompt or reply was recorded for this item."));
    return calls;
  }

  async function others(row) {
    const same = data.rowsOf(data.itemOf[row]).filter((other) => other !== row);
    if (!same.length) return null;
    const lines = await Promise.all(same.map(async (other) => {
      const { text } = await data.texts(other);
      return element("li", {}, mark(data.name(other, "status")), ` ${data.name(other, "series")} `,
        foreign("span", text[TEXT.given].slice(0, 200)));
    }));
    return element("section", { class: "turn" }, element("h3", {}, "The same item elsewhere"), element("ul", { class: "others" }, ...lines));
  }

  async function one(row, link) {
    const { text, chunk } = await data.texts(row);
    return element("div", { class: "inside" }, facts(row, text), ...exchanges(text, chunk), usageLine(text),
      ...tools(row, text, chunk, link), reviews.form(row), await others(row));
  }

  // Both replies with their different words marked; a side without a row has no verdict.
  async function both(sides, names, link) {
    const held = await Promise.all(sides.map((row) => (row < 0 ? null : data.texts(row))));
    const replies = held.map((side) => (side ? replyOf(side.text) : ""));
    const parts = held.every(Boolean) ? wordDiff(...replies) : replies.map((reply) => [[reply, false]]);
    const columns = sides.map((row, side) => {
      const title = element("h3", {}, `${side ? "Candidate" : "Baseline"}: ${names[side]} `);
      if (row < 0) return element("section", { class: "turn side" }, title, element("p", { class: "note" }, "No verdict on this item."));
      const { text, chunk } = held[side];
      title.append(mark(data.name(row, "status")));
      // Words of a correct reply are never red: the other reply is the one that went wrong.
      const tone = data.name(row, "status") === "correct" ? "good" : "bad";
      const answer = replies[side] ? marked(parts[side], tone) : element("p", { class: "note" }, "(empty)");
      const given = element("p", {}, element("span", { class: "note" }, "Given: "), foreign("span", text[TEXT.given] || "–"),
        text[TEXT.reason] ? element("span", { class: "note" }, ` ${text[TEXT.reason]}`) : null,
        text[TEXT.reading] ? element("span", { class: "note" }, ` · read by: ${text[TEXT.reading]}`) : null);
      const calls = element("details", { class: "calls" }, element("summary", {}, "Prompts and replies"), ...exchanges(text, chunk));
      return element("section", { class: "turn side reply" }, title, given, answer, usageLine(text), calls,
        ...tools(row, text, chunk, link), reviews.form(row));
    });
    const first = sides.findIndex((row) => row >= 0);
    const { text, chunk } = held[first];
    // The prompt, if both were asked the same.
    const isSame = firstCall(text) && held.every((side) => !side || promptOf(side.text, side.chunk) === promptOf(text, chunk));
    return element("div", { class: "inside" }, facts(sides[first], text, { given: false }),
      ...(isSame ? prompts(firstCall(text), chunk, 0, 1) : []), element("div", { class: "sides" }, ...columns));
  }

  return { one, both };
}

// The command that measures one case again; none if pytest's -k cannot name the item.
function commandOf(data, row) {
  const id = data.items.id[data.itemOf[row]];
  const again = data.commands && data.commands[data.rows.series[row]];
  if (!again || !/^[\w:+\-.[\]/]+$/u.test(id) || /^(and|or|not)$/.test(id)) return "";
  return `${again} -k '${id}'`;
}
