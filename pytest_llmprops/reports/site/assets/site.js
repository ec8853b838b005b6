function start() {
  theme();
  document.querySelectorAll("table.sortable").forEach(sortable);
}
