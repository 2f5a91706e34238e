/** Stacks: where the time of a pass goes, and what fills the memory of a GPU. */

import {MARGINS, drawLegendTable, hatchDefinitions, hatchedBox, label} from "./axes.js";
import {drawn} from "./dom.js";
import {columnsOf} from "./frames.js";
import {isFigure, percentText, planText, quantityText, secondsText, threeDigits} from "./text.js";

const PASSES = {prefill: "Prefill", decode: "Decode step"};
const MOST_PARTS = 7;
const BAR = 30;
const HEAD = 22;
const GAP = 18;
const MEMORY = {
  weights: "weights",
  kvCache: "KV cache",
  prefixes: "cached prefixes",
  activations: "activations",
  reserve: "reserve",
};

/** Kernels in groups of one label: time in each pass, the longest first, small ones together. */
function timeGroups(kernels) {
  const groups = new Map();
  const totals = {prefill: 0, decode: 0};
  for (const {pass, label: text, total} of kernels) {
    const group = groups.get(text) ?? {text, prefill: 0, decode: 0};
    group[pass] += total;
    totals[pass] += total;
    groups.set(text, group);
  }
  const share = (group) => Math.max(group.prefill / (totals.prefill || 1), group.decode / (totals.decode || 1));
  const ordered = d3.sort(groups.values(), (group) => -share(group));
  const rest = ordered.splice(ordered.length > MOST_PARTS ? MOST_PARTS - 1 : MOST_PARTS);
  if (rest.length > 0) {
    const sum = (pass) => d3.sum(rest, (group) => group[pass]);
    ordered.push({text: "other", prefill: sum("prefill"), decode: sum("decode")});
  }
  return {groups: ordered.filter(({prefill, decode}) => prefill + decode > 0), totals};
}

/** Draws a titled stack at a height; returns the middles of its parts. */
function drawStack(svg, id, width, {top, title, total, x, whole, parts}) {
  const right = width - MARGINS.right;
  svg.append(
    label(0, top + 14, title, {class: "label strong"}),
    label(right, top + 14, total, {class: "label strong", "text-anchor": "end"}),
  );
  const points = [];
  let from = 0;
  for (const {value, series, text} of parts) {
    const box = {x: x(from), y: top + HEAD, width: x(from + value) - x(from), height: BAR};
    svg.append(...hatchedBox(id, series, box));
    points.push({
      x: box.x + box.width / 2,
      y: box.y + BAR / 2,
      text: `${title}: ${text}\n${percentText(value / whole)}`,
    });
    from += value;
  }
  return points;
}

/** Draws where the time of both passes goes. */
function drawTime(svg, width, {kernels}) {
  const {groups, totals} = timeGroups(kernels);
  svg.append(hatchDefinitions("time"));
  const points = [];
  let top = 0;
  for (const [pass, title] of Object.entries(PASSES).filter(([each]) => totals[each] > 0)) {
    const x = d3.scaleLinear([0, totals[pass]], [0, width - MARGINS.right]);
    const parts = groups.map((group, series) => ({
      value: group[pass],
      series,
      text: `${group.text}, ${secondsText(group[pass])}`,
    }));
    const stack = {top, title, total: secondsText(totals[pass]), x, whole: totals[pass], parts};
    points.push(...drawStack(svg, "time", width, stack));
    top += HEAD + BAR + GAP;
  }
  const rows = groups.map(({text, prefill, decode}, series) => ({
    text,
    series,
    values: [prefill, decode].map((time) => (time > 0 ? secondsText(time) : "-")),
  }));
  const table = {id: "time", top: top + 12, heads: ["prefill", "decode step"], rows};
  return {height: drawLegendTable(svg, width, table), points};
}

/** Where the time of a pass goes. */
export const timeChart = {
  id: "time",
  title: "Where the time of a pass goes",
  hint: ({hint}) => hint,
  draw: drawTime,
  rows: ({kernels}) => {
    const {groups, totals} = timeGroups(kernels);
    return {
      columns: columnsOf([
        ["part", "part", "text"],
        ["prefill_s", "prefill [s]"],
        ["prefill_share", "share of prefill"],
        ["decode_s", "decode step [s]"],
        ["decode_share", "share of the step"],
      ]),
      values: groups.map(({text, prefill, decode}) => {
        const shares = [prefill / (totals.prefill || 1), decode / (totals.decode || 1)];
        return [text, prefill, shares[0], decode, shares[1]];
      }),
    };
  },
  describe: ({kernels}) => {
    const {groups, totals} = timeGroups(kernels);
    const sentences = Object.entries(PASSES).map(([pass, name]) => {
      const [first] = d3.sort(groups, (group) => -group[pass]);
      const most = first ? `, most of it ${first.text} (${percentText(first[pass] / totals[pass])})` : "";
      return `${name}: ${secondsText(totals[pass])}${most}.`;
    });
    return sentences.join(" ");
  },
};

/** Parts of the memory of an answer that are there. */
function memoryParts({memory}) {
  return Object.entries(MEMORY)
    .map(([key, text], series) => ({text, series, value: memory[key]}))
    .filter(({value}) => isFigure(value) && value > 0);
}

/** Draws what fills the memory of each GPU, against what is usable. */
function drawMemory(svg, width, {answers}) {
  svg.append(hatchDefinitions("memory"));
  const most = Math.max(...answers.flatMap(({memory}) => [memory.usable, memory.used])) * 1.02;
  const x = d3.scaleLinear([0, most], [0, width - MARGINS.right]);
  const points = [];
  let top = 0;
  for (const answer of answers) {
    const {memory, question, plan} = answer;
    const total = `${quantityText(memory.used, "B")} of ${quantityText(memory.usable, "B")}`;
    const parts = memoryParts(answer).map(({text, series, value}) => ({
      value,
      series,
      text: `${text}, ${quantityText(value, "B")}`,
    }));
    svg.append(drawn("rect", {class: "rail", x: 0, y: top + HEAD, width: x(memory.usable), height: BAR}));
    points.push(
      ...drawStack(svg, "memory", width, {
        top,
        title: plan === null ? question.gpu : `${question.gpu}, ${planText(plan)}`,
        total: memory.fits ? total : `${total}: does not fit`,
        x,
        whole: memory.usable,
        parts,
      }),
    );
    svg.append(drawn("path", {class: "limit-line", d: `M${x(memory.usable)} ${top + HEAD - 4}v${BAR + 8}`}));
    top += HEAD + BAR + GAP;
  }
  const rows = Object.values(MEMORY)
    .map((text, series) => {
      const values = answers.map((each) => memoryParts(each).find((part) => part.text === text)?.value);
      return {
        text,
        series,
        isThere: values.some(isFigure),
        values: values.map((value) => (isFigure(value) ? quantityText(value, "B") : "-")),
      };
    })
    .filter(({isThere}) => isThere);
  const batches = answers.map(({memory}) => threeDigits(memory.largestBatch));
  rows.push({text: "most sequences that fit", series: null, values: batches});
  const heads = answers.length > 1 ? answers.map(({question}) => question.gpu) : ["per GPU"];
  return {height: drawLegendTable(svg, width, {id: "memory", top: top + 12, heads, rows}), points};
}

/** What fills the memory of a GPU, against what is usable. */
export const memoryChart = {
  id: "memory",
  title: "Memory of one GPU",
  hint: () => "The dashed line marks what is usable.",
  draw: drawMemory,
  rows: ({answers}) => ({
    columns: columnsOf([
      ["gpu", "GPU", "text"],
      ["part", "part", "text"],
      ["bytes", "bytes"],
      ["share", "share of the usable memory"],
    ]),
    values: answers.flatMap((answer) => [
      ...memoryParts(answer).map(({text, value}) => [answer.question.gpu, text, value, value / answer.memory.usable]),
      [answer.question.gpu, "usable", answer.memory.usable, 1],
    ]),
  }),
  describe: ({answers}) => {
    const sentences = answers.map((answer) => {
      const parts = memoryParts(answer).map(({text, value}) => `${text} ${quantityText(value, "B")}`);
      return `${answer.question.gpu}: ${parts.join(", ")}, of ${quantityText(answer.memory.usable, "B")} usable.`;
    });
    return sentences.join(" ");
  },
};
