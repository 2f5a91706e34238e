// A click, Enter or Space on a heading sorts a table of eight rows or more by that column: numbers as numbers.
const number = (text) => {
  const found = text.replace(/,/g, "").match(/-?\d+(\.\d+)?/);
  return found ? Number(found[0]) : NaN;
};

const sort = (table, column, heading) => {
  const body = table.tBodies[0];
  const rising = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const text = (row) => row.cells[column]?.textContent.trim() ?? "";
  const rows = [...body.rows];
  const numbers = rows.filter((row) => !Number.isNaN(number(text(row)))).length * 2 > rows.length;
  const compare = numbers
    ? (a, b) => (number(text(a)) || 0) - (number(text(b)) || 0)
    : (a, b) => text(a).localeCompare(text(b));
  rows.sort(compare);
  body.append(...(rising ? rows : rows.toReversed()));
};

for (const table of document.querySelectorAll(".content table")) {
  if (!table.tHead || !table.tBodies.length || table.tBodies[0].rows.length < 8) continue;
  table.classList.add("sortable");
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    heading.tabIndex = 0;
    heading.addEventListener("click", () => sort(table, column, heading));
    heading.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort(table, column, heading);
    });
  });
}
