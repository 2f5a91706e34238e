/** Latencies along the load and along the prompt length. */

import {answer} from "../engine/answer.js";
import {curve} from "../engine/ranking.js";
import {
  MARGINS,
  bounds,
  dashes,
  drawAxes,
  drawLegend,
  linePath,
  logDomain,
  logTicks,
  marker,
  secondsAxis,
  shortNumber,
} from "./axes.js";
import {drawn} from "./dom.js";
import {columnsOf} from "./frames.js";
import {LATENCIES, isFigure, latencyAt, levelText, planText, secondsRange, secondsText, threeDigits} from "./text.js";

const SMALL = 1e-3;
const SHARES = [0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.92, 0.96, 0.98];
const TALL = {one: 306, several: 150};
const LOAD_TITLES = {
  concurrency: "users",
  request_rate: "requests per second",
  batch: "requests that start together",
};

/** The question for one of the GPUs of a chart, its plan fixed as answered, so that a curve does not change it. */
function fixedQuestion(contents, question, gpu) {
  const asked = {...question, gpu};
  const first = answer(contents, asked);
  if (!first.refusal) {
    return {asked: {...asked, tp: first.plan.tp}, first};
  }
  return {asked, first: answer(contents, {...asked, amount: question.load === "request_rate" ? SMALL : 1})};
}

/** Values from one number to another, each the same factor on; whole where the load is counted. */
function spaced(least, most, count, isWhole) {
  const values = Array.from({length: count}, (_, index) => least * (most / least) ** (index / (count - 1)));
  const rounded = isWhole ? values.map(Math.round) : values.map((value) => Number(value.toPrecision(4)));
  return [...new Set(rounded)];
}

/** Loads along which latencies are drawn. */
function loadValues(question, first) {
  if (question.load === "request_rate") {
    const most = first.maxRequestRate;
    return isFigure(most) ? SHARES.map((share) => share * most) : [];
  }
  const most = Math.max(64, 4 * question.amount);
  const largest = question.load === "batch" ? first.memory?.largestBatch : null;
  return spaced(1, isFigure(largest) ? Math.max(2, Math.min(most, largest)) : most, 15, true);
}

/** Answers along one input for each GPU, one a step; `done` takes the series. */
function* alongInput(contents, question, gpus, name, valuesOf, done) {
  const series = [];
  for (const gpu of gpus) {
    const {asked, first} = fixedQuestion(contents, question, gpu);
    yield;
    const points = [];
    for (const value of valuesOf(asked, first)) {
      const [point] = curve(contents, asked, name, [value]);
      if (!point.refusal) {
        points.push({value, answer: point});
      }
      yield;
    }
    series.push({gpu, points});
  }
  done(series);
}

/** Steps that compute latencies along the load. */
export function alongLoad(contents, question, gpus, done) {
  return alongInput(contents, question, gpus, "amount", loadValues, done);
}

/** Steps that compute latencies along the prompt length. */
export function alongPrompt(contents, question, gpus, done) {
  const model = contents.models.find(({name}) => name === question.model);
  const most = Math.max(question.isl * 2, Math.min((model?.maxContext ?? 131072) - question.osl, 131072));
  const values = () => spaced(Math.min(128, question.isl), most, 13, true).filter((isl) => isl > question.prefix);
  return alongInput(contents, question, gpus, "isl", values, done);
}

/** One panel of latencies: bands, lines, markers, the limit, and the present case; returns its points. */
function latencyPanel(svg, {data, name, box, xTitle, xTicks, xScale}) {
  const {question, levels, series} = data;
  const level = levels[name];
  const limit = question.slo[name]?.limit ?? null;
  const at = (each) => latencyAt(each.answer, name, level);
  const lines = series.map(({gpu, points}) => ({gpu, points: points.filter((each) => isFigure(at(each)?.value))}));
  const all = lines.flatMap(({points}, index) =>
    points.flatMap((each) => (index === 0 ? [at(each).low, at(each).high] : [at(each).value])),
  );
  const x = xScale.copy().range([box.left, box.right]);
  const y = d3.scaleLog(logDomain(bounds([...all, limit]), 0.08), [box.bottom, box.top]);
  const {unit, yText} = secondsAxis(y.domain());
  const yTitle = `${LATENCIES[name]}, ${levelText(level)} [${unit}]`;
  drawAxes(svg, {x, y, xTicks, yTicks: logTicks(y.domain(), 5), xText: shortNumber, yText, xTitle, yTitle});
  const hover = [];
  lines.forEach(({gpu, points}, index) => {
    const places = points.map((each) => ({x: x(each.value), y: y(at(each).value), each}));
    if (index === 0 && points.length > 1) {
      const area = d3
        .area()
        .defined((each) => isFigure(at(each).low) && isFigure(at(each).high))
        .x((each) => x(each.value))
        .y0((each) => y(at(each).low))
        .y1((each) => y(at(each).high));
      svg.append(drawn("path", {class: "band series-0", d: area(points)}));
    }
    if (places.length > 0) {
      svg.append(
        drawn("path", {class: `line series-${index}`, d: linePath(places), "stroke-dasharray": dashes(index)}),
      );
    }
    for (const place of places) {
      const {value, low, high} = at(place.each);
      svg.append(marker(index, place.x, place.y, 26));
      const title = `${gpu}: ${LATENCIES[name]} ${levelText(level)} ${secondsText(value)}`;
      const range = `80 % range ${secondsRange(low, high)}`;
      const text = [title, range, `at ${threeDigits(place.each.value)} ${data.unit}`].join("\n");
      hover.push({x: place.x, y: place.y, text});
    }
  });
  if (limit !== null) {
    svg.append(drawn("line", {class: "limit-line", x1: box.left, x2: box.right, y1: y(limit), y2: y(limit)}));
  }
  const now = data.now;
  if (now >= x.domain()[0] && now <= x.domain()[1]) {
    svg.append(drawn("line", {class: "now-line", x1: x(now), x2: x(now), y1: box.top, y2: box.bottom}));
  }
  return hover;
}

/** Entries of the legend of lines. */
function lineLegend({series, question}, names) {
  const items = series.map(({gpu}, index) => ({kind: "line", series: index, text: gpu}));
  items.push({kind: "band", series: 0, text: "80 % range"});
  if (names.some((name) => question.slo[name])) {
    items.push({kind: "limit", text: "limit"});
  }
  return [...items, {kind: "now", text: "this case"}];
}

/** Draws panels of latencies one below the other, over one input. */
function drawLatencies(svg, width, data, xTitle) {
  const {names} = data;
  let top = drawLegend(svg, width, lineLegend(data, names)) + 30;
  const values = data.series.flatMap(({points}) => points.map(({value}) => value));
  const xScale = d3.scaleLog(logDomain(bounds(values), 0.02), [0, 1]);
  const xTicks = logTicks(xScale.domain(), Math.max(3, Math.floor(width / 90)));
  const hover = [];
  const tall = names.length > 1 ? TALL.several : TALL.one;
  names.forEach((name, index) => {
    const isLast = index === names.length - 1;
    const box = {left: MARGINS.left, right: width - MARGINS.right, top, bottom: top + tall};
    hover.push(...latencyPanel(svg, {data, name, box, xTitle: isLast ? xTitle : "", xTicks, xScale}));
    top = box.bottom + (isLast ? MARGINS.bottom : 58);
  });
  return {height: top, points: hover};
}

/** Rows of latencies along an input. */
function latencyRows(data, key, title) {
  const columns = [
    ["gpu", "GPU", "text"],
    [key, title],
  ];
  for (const name of data.names) {
    const head = `${LATENCIES[name]} ${levelText(data.levels[name])}`;
    columns.push([`${name}_s`, `${head} [s]`], [`${name}_low_s`, "low [s]"], [`${name}_high_s`, "high [s]"]);
  }
  const values = data.series.flatMap(({gpu, points}) =>
    points.map((point) => [
      gpu,
      point.value,
      ...data.names.flatMap((name) => {
        const latency = latencyAt(point.answer, name, data.levels[name]);
        return [latency?.value ?? null, latency?.low ?? null, latency?.high ?? null];
      }),
    ]),
  );
  return {columns: columnsOf(columns), values};
}

/** What latencies along an input do, in words. */
function latencySentence(data, what) {
  return data.series
    .map(({gpu, points}) => {
      if (points.length === 0) {
        return `${gpu}: no answer.`;
      }
      const [first, last] = [points[0], points[points.length - 1]];
      const times = data.names.map((name) => {
        const [from, to] = [first, last].map((each) =>
          secondsText(latencyAt(each.answer, name, data.levels[name])?.value),
        );
        return `${LATENCIES[name]} from ${from} to ${to}`;
      });
      const span = `${threeDigits(first.value)} to ${threeDigits(last.value)}`;
      return `${gpu}: ${times.join(", ")}, as ${what} go from ${span}.`;
    })
    .join(" ");
}

/** Plans at which the lines are drawn. */
function planHint({series}) {
  const plans = series
    .filter(({points}) => points.length > 0)
    .map(({gpu, points}) => `${gpu} at ${planText(points[0].answer.plan)}`);
  return `The plan stays as it is: ${plans.join("; ")}.`;
}

/** Latencies along the load. */
export const loadChart = {
  id: "load",
  title: "Latency along the load",
  hint: planHint,
  draw: (svg, width, data) => drawLatencies(svg, width, data, LOAD_TITLES[data.question.load]),
  rows: (data) => latencyRows(data, data.question.load, LOAD_TITLES[data.question.load]),
  describe: (data) => latencySentence(data, LOAD_TITLES[data.question.load]),
};

/** TTFT against the prompt length. */
export const promptChart = {
  id: "prompt",
  title: "TTFT against the prompt length",
  hint: planHint,
  draw: (svg, width, data) => drawLatencies(svg, width, data, "prompt length, isl [tokens]"),
  rows: (data) => latencyRows(data, "isl", "isl [tokens]"),
  describe: (data) => latencySentence(data, "prompt tokens"),
};
