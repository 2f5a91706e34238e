/** The frame of a chart: title, tools, picture, and its data as a table. */

import {byId, button, drawn, make, plainTable, scrollBox, setAttributes} from "./dom.js";
import {saveCsv, savePng, saveSvg} from "./export.js";
import {grouped, threeDigits} from "./text.js";

const NEAR = 36;
const LEAST_WIDTH = 280;

/** Texts of raw values. */
function cellTexts(rows) {
  return rows.map((row) =>
    row.map((value) => {
      if (typeof value === "number") {
        return Math.abs(value) >= 1e5 ? grouped(value) : threeDigits(value);
      }
      return value === null || value === undefined ? "-" : String(value);
    }),
  );
}

/** Shows what lies under the pointer: the nearest point, in words. */
function bindPointer(plot, points) {
  const tooltip = byId("tooltip");
  const hide = () => {
    tooltip.hidden = true;
    plot.querySelector(".halo")?.remove();
  };
  const show = (event) => {
    const svg = plot.querySelector("svg");
    if (svg === null) {
      return;
    }
    const box = svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let nearest = null;
    let least = NEAR;
    for (const point of points()) {
      const away = Math.hypot(point.x - x, point.y - y);
      if (away < least) {
        [nearest, least] = [point, away];
      }
    }
    hide();
    if (nearest === null) {
      return;
    }
    svg.append(drawn("circle", {class: "halo", cx: nearest.x, cy: nearest.y, r: 8}));
    tooltip.replaceChildren(...nearest.text.split("\n").map((line) => make("span", {}, line)));
    tooltip.hidden = false;
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - tooltip.offsetWidth - 8);
    tooltip.style.left = `${Math.max(8, left)}px`;
    tooltip.style.top = `${event.clientY + 16}px`;
  };
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("pointermove", show);
  plot.addEventListener("pointerdown", show);
  document.addEventListener("keydown", ({key}) => key === "Escape" && hide());
}

/**
 * A chart in its frame.
 *
 * @param {object} chart id, title; draw(svg, width, data): draws and returns {height, points}; rows(data):
 *   {columns: [{key, title, numeric}], values}; describe(data): one sentence for people who do not see it.
 */
export function chartFrame(chart) {
  const plot = make("div", {class: "plot"});
  const hint = make("p", {class: "hint"});
  const table = make("div", {id: `${chart.id}-table`, class: "chart-table", hidden: true});
  const state = {data: null, subtitle: "", points: [], width: 0};
  const name = `roofline-${chart.id}`;
  const svg = () => plot.querySelector("svg");
  const withPicture = (action) => () => svg() && action(name, svg(), chart.title, state.subtitle);
  const csv = () => {
    if (state.data) {
      const {columns, values} = chart.rows(state.data);
      saveCsv(
        name,
        columns.map(({key}) => key),
        values,
      );
    }
  };
  const showTable = () => {
    if (table.hidden || !state.data) {
      return;
    }
    const {columns, values} = chart.rows(state.data);
    table.replaceChildren(scrollBox(`Data: ${chart.title}`, plainTable(chart.title, columns, cellTexts(values))));
  };
  const toggle = button(
    "Table",
    () => {
      table.hidden = !table.hidden;
      setAttributes(toggle, {"aria-expanded": String(!table.hidden)});
      showTable();
    },
    {"aria-expanded": "false", "aria-controls": table.id, "aria-label": `Table: ${chart.title}`},
  );
  const tools = make(
    "div",
    {class: "tools"},
    toggle,
    button("CSV", csv, {"aria-label": `CSV: ${chart.title}`}),
    button("SVG", withPicture(saveSvg), {"aria-label": `SVG: ${chart.title}`}),
    button("PNG", withPicture(savePng), {"aria-label": `PNG: ${chart.title}`}),
  );
  const figure = make(
    "figure",
    {id: `chart-${chart.id}`, class: "chart"},
    make("figcaption", {}, make("h3", {}, chart.title), tools),
    hint,
    plot,
    table,
  );
  bindPointer(plot, () => state.points);

  const draw = () => {
    const width = Math.max(LEAST_WIDTH, Math.floor(plot.clientWidth));
    if (!state.data || plot.clientWidth === 0) {
      return;
    }
    state.width = width;
    const picture = drawn("svg", {
      role: "img",
      width,
      class: "picture",
      "aria-label": `${chart.title}. ${chart.describe(state.data)}`,
    });
    plot.replaceChildren(picture);
    const {height, points = []} = chart.draw(picture, width, state.data);
    setAttributes(picture, {height, viewBox: `0 0 ${width} ${height}`});
    state.points = points;
  };
  new ResizeObserver(() => {
    if (Math.abs(plot.clientWidth - state.width) > 1) {
      draw();
    }
  }).observe(plot);

  return {
    figure,
    /** Shows data, with words for the case. */
    show: (data, subtitle) => {
      Object.assign(state, {data, subtitle});
      hint.textContent = chart.hint?.(data) ?? "";
      draw();
      showTable();
    },
    /** Shows why there is nothing to draw. */
    clear: (reason) => {
      Object.assign(state, {data: null, points: [], width: 0});
      hint.textContent = "";
      plot.replaceChildren(make("p", {class: "empty"}, reason));
      table.replaceChildren();
    },
    /** Columns and rows of the data as values; null without data. */
    rows: () => (state.data ? chart.rows(state.data) : null),
    title: chart.title,
  };
}

/** Title of columns from their keys and words: a number unless it says otherwise. */
export function columnsOf(entries) {
  return entries.map(([key, title, kind = "number"]) => ({key, title, numeric: kind === "number"}));
}
