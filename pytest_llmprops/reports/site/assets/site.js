// What all pages of the site start with.
function start() {
  theme();
  document.querySelector("[aria-current=page]").scrollIntoView({ inline: "nearest", block: "nearest" });
  document.querySelectorAll("table.sortable").forEach(sortable);
  if (typeof page === "function") page().catch((error) => fail(error.message));
}

// The error is shown where the page has its data, otherwise at the end.
function fail(text) {
  const place = document.getElementById("count") || document.querySelector("main").appendChild(element("p", { class: "warning" }));
  place.textContent = "DecompressionStream" in window ? `The data cannot be shown: ${text}` : "This page needs a newer browser: Chrome 80, Firefox 113, Safari 16.4.";
}

const pageData = () => unpacked(document.getElementById("data").textContent);

// Data files are scripts that call `received`, because a page on disk cannot fetch files.
const loading = new Map();
function received(name, text) {
  loading.get(name)?.done(text);
}
function loaded(name) {
  if (!loading.has(name)) {
    const entry = {};
    entry.text = new Promise((done, failed) => {
      const script = element("script", { src: `data/items-${name}.js` });
      entry.done = (text) => { script.remove(); done(text); };
      script.addEventListener("error", () => { loading.delete(name); failed(new Error(`data/items-${name}.js is missing; load the page again`)); });
      document.head.append(script);
    });
    loading.set(name, entry);
  }
  return loading.get(name).text.then(unpacked);
}

// A table; the first column of a row is its header.
function tableOf(columns, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map((cell, n) => element(n ? "td" : "th", n ? {} : { scope: "row" }, cell))))));
}

const runLink = (id, report, address = "") => (report ? element("a", { href: report + address }, id) : document.createTextNode(id));
