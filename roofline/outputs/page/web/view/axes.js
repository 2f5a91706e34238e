/** Axes, legends and marks that the charts share. */

import {drawn, setAttributes} from "./dom.js";
import {isFigure, threeDigits} from "./text.js";

const SYMBOLS = [
  "symbolCircle",
  "symbolSquare",
  "symbolTriangle",
  "symbolDiamond",
  "symbolStar",
  "symbolWye",
  "symbolCross",
];
const DASHES = [null, "7 4", "2 3", "9 3 2 3"];
const CHARACTER = 6.4;
const LEGEND_ROW = 18;
const TABLE_ROW = 22;

/** Margins of a picture. */
export const MARGINS = {left: 58, right: 16, bottom: 44};

/** Path of a marker of a series at a place. */
export function marker(series, x, y, size = 34, className = "mark") {
  const shape = d3.symbol(d3[SYMBOLS[series % SYMBOLS.length]], size)();
  return drawn("path", {d: shape, transform: `translate(${x} ${y})`, class: `${className} series-${series}`});
}

/** Dashes of a series. */
export function dashes(series) {
  return DASHES[series % DASHES.length];
}

/** A text of a picture. */
export function label(x, y, text, attributes = {}) {
  return drawn("text", {x, y, class: "label", ...attributes}, text);
}

/** Ticks of a logarithmic axis at 1, 2 and 5, or at powers of ten where these are too many. */
export function logTicks([least, most], count = 6) {
  const choices = [[1, 2, 5], [1, 3], [1]].map((steps) => {
    const ticks = [];
    for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power += 1) {
      for (const step of steps) {
        const tick = Number(`${step}e${power}`);
        if (tick >= least * 0.999 && tick <= most * 1.001) {
          ticks.push(tick);
        }
      }
    }
    return ticks;
  });
  const fitting = choices.find((ticks) => ticks.length <= count + 1) ?? choices[2];
  const each = Math.ceil(fitting.length / (count + 1));
  return fitting.filter((_, index) => index % each === 0);
}

/** Domain of a logarithmic axis with a little room at both ends. */
export function logDomain([least, most], room = 0.06) {
  if (!(least > 0) || !Number.isFinite(most)) {
    return [1, 10];
  }
  const spread = Math.max(Math.log10(most / least), 0.3) * room;
  return [least / 10 ** spread, most * 10 ** spread];
}

/**
 * Draws both axes with titles and a grid.
 *
 * @param {SVGElement} svg the picture.
 * @param {object} axes x, y: scales of d3 with their ranges; xTicks, yTicks: values; xText, yText: texts of a value;
 *   xTitle, yTitle: titles with units.
 */
export function drawAxes(svg, {x, y, xTicks, yTicks, xText, yText, xTitle, yTitle}) {
  const [left, right] = x.range();
  const [bottom, top] = y.range();
  const grid = yTicks.map((tick) => drawn("line", {class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick)}));
  const across = drawn("g", {class: "axis", transform: `translate(0 ${bottom})`});
  const up = drawn("g", {class: "axis", transform: `translate(${left} 0)`});
  svg.append(...grid, across, up);
  d3.select(across).call(d3.axisBottom(x).tickValues(xTicks).tickFormat(xText).tickSize(4).tickPadding(6));
  d3.select(up).call(d3.axisLeft(y).tickValues(yTicks).tickFormat(yText).tickSize(0).tickPadding(8));
  svg.append(
    label((left + right) / 2, bottom + 36, xTitle, {class: "axis-title", "text-anchor": "middle"}),
    label(0, top - 12, yTitle, {class: "axis-title"}),
  );
}

/** Unit of an axis of times, and the text of a tick in it. */
export function secondsAxis([, most]) {
  const isLong = most >= 5;
  return {unit: isLong ? "s" : "ms", yText: (seconds) => threeDigits(isLong ? seconds : seconds * 1e3)};
}

/** Line through places. */
export function linePath(places) {
  return d3.line()(places.map(({x, y}) => [x, y]));
}

/** Least and greatest of the figures among values. */
export function bounds(values) {
  const figures = values.filter((value) => isFigure(value) && value > 0);
  return [Math.min(...figures), Math.max(...figures)];
}

/** Words of an axis whose ticks are numbers of any size: 1k, 2M. */
export function shortNumber(value) {
  return d3.format(value >= 1000 ? "~s" : "~r")(Number(value.toPrecision(3)));
}

/**
 * Draws a legend in rows from the top left.
 *
 * @param {SVGElement} svg the picture.
 * @param {number} width its width.
 * @param {Array<{text: string, series: number, kind: "line"|"mark"|"band"|"limit"|"now"|"fill"}>} items entries.
 * @returns {number} the height taken.
 */
export function drawLegend(svg, width, items, top = 0) {
  let [x, y] = [0, top + 10];
  for (const item of items) {
    const long = 26 + item.text.length * CHARACTER;
    if (x > 0 && x + long > width) {
      [x, y] = [0, y + LEGEND_ROW];
    }
    svg.append(...legendSign(item, x, y), label(x + 24, y + 4, item.text));
    x += long + 14;
  }
  return items.length === 0 ? 0 : y - top + 10;
}

/** What stands before a text of a legend. */
function legendSign({kind, series = 0}, x, y) {
  const of = `series-${series}`;
  const line = (className) => drawn("line", {class: className, x1: x, x2: x + 18, y1: y, y2: y});
  if (kind === "line") {
    return [setAttributes(line(`line ${of}`), {"stroke-dasharray": dashes(series)}), marker(series, x + 9, y)];
  }
  if (kind === "limit" || kind === "now" || kind === "roof") {
    return [line(`${kind}-line`)];
  }
  if (kind === "band" || kind === "fill") {
    return [drawn("rect", {class: `${kind} ${of}`, x, y: y - 6, width: 18, height: 12})];
  }
  return [marker(series, x + 9, y, 44, kind === "open" ? "mark open" : "mark")];
}

/** A hatch for a part of a stack, so that colour is not its only sign. */
const HATCHES = [
  null,
  "M-2 2l4-4M0 8l8-8M6 10l4-4",
  "M2 2h1v1h-1zM6 6h1v1h-1z",
  "M0 2h8M0 6h8",
  "M-2 6l4 4M0 0l8 8M6-2l4 4",
  "M2 0v8M6 0v8",
  "M0 4h8M4 0v8",
  "M0 8l4-8l4 8",
];

/** Definitions of the hatches of a picture; `id` tells those of one picture from another's. */
export function hatchDefinitions(id) {
  return drawn(
    "defs",
    {},
    ...HATCHES.map(
      (path, index) =>
        path &&
        drawn(
          "pattern",
          {id: `${id}-hatch-${index}`, width: 8, height: 8, patternUnits: "userSpaceOnUse"},
          drawn("path", {d: path, class: "hatch"}),
        ),
    ).filter(Boolean),
  );
}

/** A filled box of a stack: colour, and its hatch over it. */
export function hatchedBox(id, series, {x, y, width, height}) {
  const box = {x, y, width: Math.max(width, 0.5), height};
  const boxes = [drawn("rect", {...box, class: `fill series-${series}`})];
  if (HATCHES[series % HATCHES.length]) {
    boxes.push(drawn("rect", {...box, fill: `url(#${id}-hatch-${series % HATCHES.length})`}));
  }
  return boxes;
}

/**
 * Draws a table below stacks that says which part is which, and how large in each stack.
 *
 * @param {SVGElement} svg the picture.
 * @param {number} width its width.
 * @param {object} table id of the hatches; top; heads of the columns; rows: {text, series (null: none), values}.
 * @returns {number} where it ends.
 */
export function drawLegendTable(svg, width, {id, top, heads, rows}) {
  const step = Math.min(120, (width - 170) / heads.length);
  const right = (index) => width - MARGINS.right - (heads.length - 1 - index) * step;
  const most = Math.floor(step / CHARACTER);
  heads.forEach((head, index) => {
    const short = head.length > most ? `${head.slice(0, most - 1)}\u2026` : head;
    svg.append(label(right(index), top, short, {class: "label head", "text-anchor": "end"}));
  });
  rows.forEach(({text, series, values}, line) => {
    const y = top + (line + 1) * TABLE_ROW;
    svg.append(drawn("line", {class: "grid", x1: 0, x2: width - MARGINS.right, y1: y - 15, y2: y - 15}));
    if (series !== null) {
      svg.append(...hatchedBox(id, series, {x: 0, y: y - 11, width: 18, height: 13}));
    }
    svg.append(label(series === null ? 0 : 28, y, text));
    values.forEach((value, index) => svg.append(label(right(index), y, value, {"text-anchor": "end"})));
  });
  return top + rows.length * TABLE_ROW + 12;
}
