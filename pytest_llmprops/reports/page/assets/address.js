// The state of the list in the address: `#items?tab=lost&task=rhyme&item=…`. It also works in a page opened from disk.
const START = "#items?";
const PLAIN = ["tab", "q", "status", "benchmark", "task", "language", "source", "model", "split", "selected", "value", "least", "most", "sort", "page", "item", "from", "to"];

function readAddress() {
  if (!location.hash.startsWith(START)) return null;
  const found = new URLSearchParams(location.hash.slice(START.length));
  return Object.fromEntries(PLAIN.filter((name) => found.get(name)).map((name) => [name, found.get(name)]));
}

function addressOf(values) {
  const query = new URLSearchParams(PLAIN.filter((name) => values[name]).map((name) => [name, String(values[name])]));
  return START + query.toString().replaceAll("%2F", "/");
}

// Back returns to the state before a push; a replaced state leaves no entry in the history.
function writeAddress(values, push) {
  const address = addressOf(values);
  if (address === location.hash) return;
  if (push) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
