"use strict";
// The runs that are chosen for a comparison, and the bar that opens it. The first one is the baseline.
function comparison(rows, changed) {
  const bar = document.getElementById("bar");
  let chosen = [];
  let baseline = "";

  const isChosen = (id) => chosen.includes(id);
  // By default, the oldest run is the baseline.
  const oldest = () => [...chosen].sort((a, b) => collator.compare(rows.get(a).started, rows.get(b).started))[0];
  const first = () => (chosen.includes(baseline) ? baseline : oldest());

  function choose(ids, from = baseline) {
    chosen = ids.filter((id) => rows.has(id));
    baseline = from;
    show();
    changed();
  }

  const toggle = (id) => choose(isChosen(id) ? chosen.filter((other) => other !== id) : [...chosen, id]);

  function show() {
    chosen = chosen.filter((id) => rows.has(id));
    bar.hidden = !chosen.length;
    document.body.classList.toggle("has-choice", Boolean(chosen.length));
    if (!chosen.length) return;
    const before = document.activeElement && bar.contains(document.activeElement) ? document.activeElement.dataset.focus : "";
    const select = element("select", { "data-focus": "baseline" }, ...chosen.map((id) => element("option", { value: id }, rows.get(id).name)));
    select.value = first();
    select.addEventListener("change", () => choose(chosen, select.value));
    const others = chosen.filter((id) => id !== first());
    const names = others.map((id) => rows.get(id).name).join(", ");
    const clear = element("button", { type: "button", class: "plain", "data-focus": "clear" }, "Clear");
    clear.addEventListener("click", () => choose([]));
    const ready = others.length > 0 && !facts.reports;
    const go = ready
      ? element("a", { class: "compare", href: `reports/${[first(), ...others].join("-")}/`, "data-focus": "compare" }, "Compare")
      : element("span", { class: "note" }, facts.reports || "Choose another run to compare with.");
    bar.replaceChildren(element("label", {}, "Baseline ", select),
      ...(others.length ? [element("span", { class: "candidates" }, "→ ", element("span", { class: "note" }, others.length > 1 ? "candidates " : "candidate "), names)] : []), go, clear);
    if (before) bar.querySelector(`[data-focus="${before}"]`)?.focus();
  }

  return { choose, toggle, isChosen, show, chosen: () => [...chosen], baseline: () => (chosen.includes(baseline) ? baseline : "") };
}
