// The numbers of a figure are shown when they are opened.
async function page() {
  const data = await pageData();
  for (const place of document.querySelectorAll("details.numbers")) {
    place.addEventListener("toggle", () => {
      if (!place.open || place.querySelector("table")) return;
      const rows = data.numbers[Number(place.dataset.section)][Number(place.dataset.figure)];
      place.append(tableOf(["Date", "Model", "Accuracy", "Answered", "Run"],
        rows.map(([date, model, accuracy, n, run]) => [date, model, accuracy, n.toLocaleString("en"), runLink(...data.runs[run])])));
    });
  }
  root.dataset.ready = "trends";
}
