// The rules of a decision are shown when they are opened.
async function page() {
  const marks = { met: "✓", failed: "✗", inconclusive: "?", invalid: "!" };
  const data = await pageData();
  for (const place of document.querySelectorAll("details.rules-of")) {
    place.addEventListener("toggle", () => {
      if (!place.open || place.childElementCount > 1) return;
      const { rules, notes, file } = data[Number(place.dataset.gate)];
      if (rules.length) {
        place.append(tableOf(["Rule", "Required", "Measured", "Verdict"], rules.map(([name, required, measured, verdict, reason]) => [
          name, required, measured,
          element("span", {}, element("span", { class: `verdict ${verdict}` }, `${marks[verdict] || ""} ${verdict}`), reason ? element("small", { class: "note" }, ` ${reason}`) : null),
        ])));
      }
      place.append(element("ul", { class: "note" }, ...notes.map((text) => element("li", {}, text)), element("li", {}, `Gate file: ${file || "not recorded"}`)));
    });
  }
  root.dataset.ready = "gates";
}
