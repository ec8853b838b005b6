// Review marks: the status that a verdict should have, and a note. Those beside the runs come with the page; those made here are
// kept in this browser, and are exported as lines of review.jsonl. If `llmprops view` serves the page, it has the
// current marks, and saves those made here beside the runs.
const STATUSES = ["correct", "wrong", "refused", "unparsed", "untested"];

function reviewMarks(data, changed) {
  const server = document.querySelector('meta[name="llmprops-reviews"]')?.content;
  const place = `llmprops-review ${[...new Set(data.runs)].join(" ")}`;
  const keyOf = (mark) => JSON.stringify([mark.run, mark.model, mark.benchmark, mark.source, mark.id, mark.sample]);
  const about = (row) => {
    const series = data.rows.series[row];
    return {
      run: data.runs[series], model: data.models[series], benchmark: data.name(row, "benchmark"),
      source: data.name(row, "source"), id: data.items.id[data.itemOf[row]], sample: data.sample(row),
    };
  };
  const isMade = (mark) => Boolean(mark && (mark.status || mark.judged_wrongly || mark.note));
  const stratumOf = new Map(data.readings.sample);
  const isSampled = (row) => stratumOf.has(row);
  const marks = new Map(data.reviews.map((mark) => [keyOf(mark), mark]));
  if (server) load();
  else {
    try {
      for (const mark of JSON.parse(localStorage.getItem(place) || "[]")) marks.set(keyOf(mark), mark);
    } catch { /* storage is blocked or has something else: marks last for this view */ }
  }

  // The marks beside the runs now: they may be newer than the page.
  async function load() {
    try {
      const saved = await answer(await fetch(server));
      for (const [key, mark] of marks) if (!mark.unsaved) marks.delete(key);
      for (const mark of saved) if (!marks.has(keyOf(mark))) marks.set(keyOf(mark), mark);
      show();
      changed();
    } catch (error) {
      tell(`The review marks could not be read: ${error.message}`);
    }
  }

  async function answer(response) {
    const content = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(content.error || `the server answered with status ${response.status}`);
    return content;
  }

  // Keep a mark, and save it on the server if there is one. Return why it is not saved; empty if it is.
  async function put(mark) {
    const key = keyOf(mark);
    const made = { ...mark, here: true };
    marks.set(key, made);
    if (!server) {
      try {
        localStorage.setItem(place, JSON.stringify([...marks.values()].filter((one) => one.here)));
      } catch { /* as above */ }
      show();
      return "";
    }
    made.unsaved = true;
    show();
    try {
      const { here, unsaved, ...line } = made;
      const saved = await answer(await fetch(server, { method: "POST", body: JSON.stringify(line), headers: { "Content-Type": "application/json" } }));
      // A later change of the same mark is on its way.
      if (marks.get(key) === made) marks.set(key, saved);
      return "";
    } catch (error) {
      return error instanceof TypeError ? "llmprops view does not answer" : error.message;
    } finally {
      show();
    }
  }

  const tell = (text) => document.getElementById("imported").replaceChildren(text);

  // A line of review.jsonl, or nothing if the text is not one.
  function read(line) {
    try {
      const mark = JSON.parse(line);
      const texts = ["run", "model", "benchmark", "source", "id"];
      if (texts.some((name) => typeof mark[name] !== "string")) return null;
      return {
        ...Object.fromEntries(texts.map((name) => [name, mark[name]])), sample: Number(mark.sample) || 0,
        judged_wrongly: mark.judged_wrongly === true, note: String(mark.note || ""), time: String(mark.time || ""),
        status: STATUSES.includes(mark.status) ? mark.status : "",
      };
    } catch {
      return null;
    }
  }

  const lines = () => [...marks.values()].map(({ here, unsaved, ...mark }) => JSON.stringify(mark)).join("\n") + "\n";

  function show() {
    const made = [...marks.values()].filter(isMade).length;
    const waiting = [...marks.values()].filter((mark) => mark.unsaved).length;
    document.getElementById("reviewed").textContent = `${made.toLocaleString("en")} review mark${made === 1 ? "" : "s"}${waiting ? `, ${waiting.toLocaleString("en")} not saved` : ""}`;
    document.getElementById("export").disabled = marks.size === 0;
    showCorrected();
  }

  // The accuracy that the marks on the sample imply, as Readings.corrected in runs/readings.py computes it: the share
  // of correct replies of each stratum, weighted by its size, and Wilson's intervals combined (Zou and Donner 2008).
  function corrected() {
    const marked = data.readings.strata.map(() => ({ n: 0, right: 0, misread: 0 }));
    for (const [row, stratum] of stratumOf) {
      const mark = marks.get(keyOf(about(row)));
      if (!mark || !(mark.status || mark.judged_wrongly)) continue;
      const recorded = data.name(row, "status");
      const status = mark.status || (recorded === "correct" ? "wrong" : "correct");
      marked[stratum].n += 1;
      marked[stratum].right += status === "correct";
      marked[stratum].misread += status !== recorded;
    }
    const groups = new Map();
    data.readings.strata.forEach(([series, benchmark, status, size], place) => {
      const key = `${series} ${benchmark}`;
      if (!groups.has(key)) groups.set(key, { series, benchmark, total: 0, strata: [] });
      const group = groups.get(key);
      group.total += size;
      group.strata.push({ size, asRead: data.status[status] === "correct", ...marked[place] });
    });
    return [...groups.values()].filter((group) => group.strata.some(({ n }) => n)).map((group) => {
      const sums = { value: 0, below: 0, above: 0, asRead: 0, n: 0, misread: 0, unmarked: 0 };
      for (const { size, asRead, n, right, misread } of group.strata) {
        const weight = size / group.total;
        sums.asRead += weight * asRead;
        if (!n) {
          sums.value += weight * asRead;
          sums.unmarked += size;
          continue;
        }
        const [low, high] = wilson(right, n);
        const left = Math.sqrt((size - n) / Math.max(1, size - 1));
        sums.value += (weight * right) / n;
        sums.below += (weight * (right / n - low) * left) ** 2;
        sums.above += (weight * (high - right / n) * left) ** 2;
        sums.n += n;
        sums.misread += misread;
      }
      return { ...group, ...sums, low: Math.max(0, sums.value - Math.sqrt(sums.below)), high: Math.min(1, sums.value + Math.sqrt(sums.above)) };
    });
  }

  function wilson(right, n) {
    const z2 = 1.959963984540054 ** 2;
    const share = right / n;
    const centre = (share + z2 / (2 * n)) / (1 + z2 / n);
    const half = Math.sqrt(z2 * ((share * (1 - share)) / n + z2 / (4 * n * n))) / (1 + z2 / n);
    return [Math.max(0, centre - half), Math.min(1, centre + half)];
  }

  function showCorrected() {
    const percent = (share) => `${(100 * share).toFixed(1)}%`;
    document.getElementById("corrected").replaceChildren(...corrected().map((group) => element("li", {},
      `${words(data.benchmark[group.benchmark])}, ${data.series[group.series]}: corrected accuracy ${percent(group.value)} (${percent(group.low)} to ${percent(group.high)}, conservative), as read ${percent(group.asRead)}; `
      + `${group.misread} of ${group.n} marked replies of the sample are misread`
      + (group.unmarked ? `; ${group.unmarked.toLocaleString("en")} replies were read by rules without a mark` : ""))));
  }

  document.getElementById("export").addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([lines()], { type: "application/jsonl" }));
    element("a", { href: address, download: "review.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
  document.getElementById("import").addEventListener("change", async (event) => {
    const text = await event.target.files[0].text();
    const all = text.split("\n").filter((line) => line.trim());
    const found = all.map(read).filter((mark) => mark && data.runs.includes(mark.run));
    event.target.value = "";
    const problems = [];
    for (const mark of found) problems.push(await put(mark));
    const failed = problems.filter(Boolean);
    said(`${found.length - failed.length} of ${all.length} lines imported`);
    tell(`${found.length} of ${all.length} lines of the file are marks on these runs.${failed.length ? ` ${failed.length} are not saved: ${failed[0]}.` : ""}`);
    changed();
  });
  show();
  // A mark that is not saved would be lost with the page.
  addEventListener("beforeunload", (event) => {
    if ([...marks.values()].some((mark) => mark.unsaved)) event.preventDefault();
  });

  function form(row) {
    const subject = about(row);
    const mark = marks.get(keyOf(subject)) || { judged_wrongly: false, note: "", status: "" };
    const recorded = data.name(row, "status");
    const wrongly = mark.judged_wrongly && !mark.status ? [element("option", { value: "?" }, "judged wrongly")] : [];
    const judgement = element("select", {}, element("option", { value: "" }, "not checked"), ...wrongly,
      ...(recorded === "error" ? [] : [recorded, ...STATUSES.filter((status) => status !== recorded)]).map((status) => (
        element("option", { value: status }, status === recorded ? `right: ${status}` : `should be ${status}`))));
    judgement.value = mark.status || (wrongly.length ? "?" : "");
    const note = element("input", { type: "text", dir: "auto", maxlength: "2000" });
    note.value = mark.note;
    const state = element("span", { class: "review-state", role: "status" });
    const again = element("button", { type: "button", class: "plain", hidden: "" }, "Save again");
    const isWrong = () => judgement.value !== "" && judgement.value !== recorded;
    const save = async () => {
      again.hidden = true;
      if (server) state.textContent = "Saving…";
      const problem = await put({ ...subject, judged_wrongly: isWrong(), status: judgement.value === "?" ? "" : judgement.value, note: note.value.trim(), time: new Date().toISOString() });
      if (!server) return;
      state.textContent = problem ? `Not saved: ${problem}` : "Saved";
      state.classList.toggle("wrong", Boolean(problem));
      again.hidden = !problem;
    };
    judgement.addEventListener("change", save);
    note.addEventListener("change", save);
    again.addEventListener("click", save);
    if (mark.unsaved) {
      state.textContent = "Not saved";
      again.hidden = false;
    }
    return element("div", { class: "review" }, element("label", {}, "Judgement ", judgement), element("label", { class: "review-note" }, "Note ", note), state, again);
  }

  function badge(rows) {
    const made = rows.map((row) => marks.get(keyOf(about(row)))).filter(isMade);
    if (!made.length) return null;
    const title = made.some((mark) => mark.judged_wrongly) ? "judged wrongly" : made.some((mark) => mark.status) ? "read right" : "note";
    return element("span", { class: "badge", title: made.map((mark) => mark.note).filter(Boolean).join(" / ") || null }, `✎ ${title}`);
  }

  return { form, badge, isSampled };
}
