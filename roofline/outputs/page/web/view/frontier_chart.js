/** Throughput of a GPU against the speed that one user sees. */

import {frontierDegrees, marked, pointsAt} from "../engine/ranking.js";
import {
  MARGINS,
  bounds,
  dashes,
  drawAxes,
  drawLegend,
  label,
  linePath,
  logDomain,
  logTicks,
  marker,
  shortNumber,
} from "./axes.js";
import {drawn} from "./dom.js";
import {columnsOf} from "./frames.js";
import {loadText, planText, threeDigits} from "./text.js";

const TALL_FRONTIER = 358;
const BOLD_CHARACTER = 7.2;

/** Steps that compute the frontier of each GPU. */
export function* alongFrontier(contents, question, gpus, done) {
  const series = [];
  for (const gpu of gpus) {
    const points = [];
    for (const tp of frontierDegrees(question)) {
      points.push(...pointsAt(contents, {...question, gpu}, tp));
      yield;
    }
    series.push({gpu, points: marked(points)});
  }
  done(series);
}

/** Plan and load of a point. */
function pointText({answer}) {
  return `${planText(answer.plan)}, ${loadText(answer.question)}`;
}

/** Points of the frontier, the slowest user first. */
function best(points) {
  return d3.sort(
    points.filter(({onFrontier}) => onFrontier),
    ({x}) => x,
  );
}

/** Marks the present case with a ring and its load. */
function drawCurrent(svg, width, {x, y}, question) {
  const text = `this case: ${loadText(question)}`;
  const isRight = x + text.length * BOLD_CHARACTER > width - MARGINS.right;
  svg.append(
    drawn("circle", {class: "now-ring", cx: x, cy: y, r: 8}),
    label(x + (isRight ? -13 : 13), y - 9, text, {
      class: "label strong on-plot",
      "text-anchor": isRight ? "end" : "start",
    }),
  );
}

/** Draws the frontier: its points filled and joined, the others open, the present case ringed. */
function drawFrontier(svg, width, {series, current, question}) {
  const items = series.map(({gpu}, index) => ({kind: "line", series: index, text: `${gpu}, frontier`}));
  const top = drawLegend(svg, width, [...items, {kind: "open", series: 0, text: "other plans and loads"}]) + 30;
  const all = [...series.flatMap(({points}) => points), ...(current ? [current] : [])];
  const xBounds = bounds(all.map((point) => point.x));
  const yBounds = bounds(all.map((point) => point.y));
  const x = d3.scaleLog(logDomain(xBounds, 0.04), [MARGINS.left, width - MARGINS.right]);
  const y = d3.scaleLog(logDomain(yBounds, 0.06), [top + TALL_FRONTIER, top]);
  drawAxes(svg, {
    x,
    y,
    xTicks: logTicks(x.domain(), Math.max(3, Math.floor(width / 90))),
    yTicks: logTicks(y.domain(), 6),
    xText: shortNumber,
    yText: shortNumber,
    xTitle: "speed that one user sees [tok/s]",
    yTitle: "output per GPU [tok/s]",
  });
  const hover = [];
  series.forEach(({gpu, points}, index) => {
    const line = best(points).map((point) => ({x: x(point.x), y: y(point.y)}));
    svg.append(drawn("path", {class: `line series-${index}`, d: linePath(line), "stroke-dasharray": dashes(index)}));
    for (const point of points) {
      const place = {x: x(point.x), y: y(point.y)};
      const look = point.onFrontier ? [44, "mark"] : [26, "mark open"];
      svg.append(marker(index, place.x, place.y, ...look));
      const speeds = [`${threeDigits(point.y)} tok/s per GPU`, `${threeDigits(point.x)} tok/s per user`];
      hover.push({x: place.x, y: place.y, text: [`${gpu}: ${pointText(point)}`, ...speeds].join("\n")});
    }
  });
  if (current) {
    drawCurrent(svg, width, {x: x(current.x), y: y(current.y)}, question);
  }
  return {height: top + TALL_FRONTIER + MARGINS.bottom, points: hover};
}

/** The frontier of one GPU in words. */
function frontierSentence({gpu, points}) {
  const line = best(points);
  if (line.length === 0) {
    return `${gpu}: no answer.`;
  }
  const [slow, fast] = [line[0], line[line.length - 1]];
  return (
    `${gpu}: ${line.length} of ${points.length} points are on the frontier, from ${threeDigits(slow.y)} tok/s ` +
    `per GPU at ${threeDigits(slow.x)} tok/s per user to ${threeDigits(fast.y)} at ${threeDigits(fast.x)}.`
  );
}

/** Throughput of a GPU against the speed that a user sees. */
export const frontierChart = {
  id: "frontier",
  title: "Throughput against speed per user",
  hint: () => "Plans and loads that no other one beats in both are on the frontier.",
  draw: drawFrontier,
  rows: ({series}) => ({
    columns: columnsOf([
      ["gpu", "GPU", "text"],
      ["point", "plan and load", "text"],
      ["tok_s_user", "tok/s per user"],
      ["output_tok_s_gpu", "tok/s per GPU"],
      ["on_frontier", "on the frontier", "text"],
    ]),
    values: series.flatMap(({gpu, points}) =>
      points.map((point) => [gpu, pointText(point), point.x, point.y, point.onFrontier ? "yes" : "no"]),
    ),
  }),
  describe: ({series}) => series.map(frontierSentence).join(" "),
};
