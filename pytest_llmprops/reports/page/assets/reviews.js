// Review marks: "judged wrongly" and a note on a verdict. Those beside the runs come with the page; those made here are
// kept in this browser, and are exported as lines of review.jsonl.
function reviewMarks(data, changed) {
  const place = `llmprops-review ${[...new Set(data.runs)].join(" ")}`;
  const keyOf = (mark) => JSON.stringify([mark.run, mark.model, mark.benchmark, mark.source, mark.id, mark.sample]);
  const about = (row) => {
    const series = data.rows.series[row];
    return {
      run: data.runs[series], model: data.models[series], benchmark: data.name(row, "benchmark"),
      source: data.name(row, "source"), id: data.items.id[data.itemOf[row]], sample: data.sample(row),
    };
  };
  const isMade = (mark) => Boolean(mark && (mark.judged_wrongly || mark.note));
  const marks = new Map(data.reviews.map((mark) => [keyOf(mark), mark]));
  try {
    for (const mark of JSON.parse(localStorage.getItem(place) || "[]")) marks.set(keyOf(mark), mark);
  } catch { /* storage is blocked or has something else: marks last for this view */ }

  function store() {
    try {
      localStorage.setItem(place, JSON.stringify([...marks.values()].filter((mark) => mark.here)));
    } catch { /* as above */ }
    show();
  }

  function put(mark) {
    marks.set(keyOf(mark), { ...mark, here: true });
    store();
  }

  // A line of review.jsonl, or nothing if the text is not one.
  function read(line) {
    try {
      const mark = JSON.parse(line);
      const texts = ["run", "model", "benchmark", "source", "id"];
      if (texts.some((name) => typeof mark[name] !== "string")) return null;
      return {
        ...Object.fromEntries(texts.map((name) => [name, mark[name]])), sample: Number(mark.sample) || 0,
        judged_wrongly: mark.judged_wrongly === true, note: String(mark.note || ""), time: String(mark.time || ""),
      };
    } catch {
      return null;
    }
  }

  const lines = () => [...marks.values()].map(({ here, ...mark }) => JSON.stringify(mark)).join("\n") + "\n";

  function show() {
    const made = [...marks.values()].filter(isMade).length;
    document.getElementById("reviewed").textContent = `${made.toLocaleString("en")} review mark${made === 1 ? "" : "s"}`;
    document.getElementById("export").disabled = marks.size === 0;
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
    found.forEach(put);
    event.target.value = "";
    said(`${found.length} of ${all.length} lines imported`);
    document.getElementById("imported").textContent = `${found.length} of ${all.length} lines of the file are marks on these runs.`;
    changed();
  });
  show();

  function form(row) {
    const subject = about(row);
    const mark = marks.get(keyOf(subject)) || { judged_wrongly: false, note: "" };
    const wrongly = element("input", { type: "checkbox" });
    wrongly.checked = mark.judged_wrongly;
    const note = element("input", { type: "text", dir: "auto", maxlength: "2000" });
    note.value = mark.note;
    const save = () => put({ ...subject, judged_wrongly: wrongly.checked, note: note.value.trim(), time: new Date().toISOString() });
    wrongly.addEventListener("change", save);
    note.addEventListener("change", save);
    return element("div", { class: "review" }, element("label", {}, wrongly, " Judged wrongly"), element("label", { class: "review-note" }, "Note ", note));
  }

  function badge(rows) {
    const made = rows.map((row) => marks.get(keyOf(about(row)))).filter(isMade);
    if (!made.length) return null;
    const title = made.some((mark) => mark.judged_wrongly) ? "judged wrongly" : "note";
    return element("span", { class: "badge", title: made.map((mark) => mark.note).filter(Boolean).join(" / ") || null }, `✎ ${title}`);
  }

  return { form, badge };
}
