/* global d3 */
/** Charts of one step: where its time goes, its kernels under the roofs, and the memory of a GPU. */

import {
  MARGINS,
  drawAxes,
  drawLegend,
  hatchDefinitions,
  hatchedBox,
  label,
  logDomain,
  logTicks,
  marker,
  shortNumber,
} from "./axes.js";
import {drawn} from "./dom.js";
import {bounds, columnsOf} from "./frames.js";
import {isFigure, percentText, quantityText, secondsText, threeDigits} from "./text.js";

const PASSES = {prefill: "Prefill", decode: "Decode step"};
const MOST_PARTS = 7;
const BAR = 30;
const TABLE_ROW = 22;
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
  const ordered = [...groups.values()].sort((a, b) => share(b) - share(a));
  const rest = ordered.splice(ordered.length > MOST_PARTS ? MOST_PARTS - 1 : MOST_PARTS);
  if (rest.length > 0) {
    const sum = (pass) => rest.reduce((whole, group) => whole + group[pass], 0);
    ordered.push({text: "other", prefill: sum("prefill"), decode: sum("decode")});
  }
  return {groups: ordered.filter((group) => group.prefill + group.decode > 0), totals};
}

/** Draws one stacked bar over the whole width; returns the middles of its parts. */
function stackedBar(svg, id, {x, y, whole, parts}) {
  const points = [];
  let from = 0;
  for (const {value, series, text} of parts) {
    const box = {x: x(from), y, width: x(from + value) - x(from), height: BAR};
    svg.append(...hatchedBox(id, series, box));
    points.push({x: box.x + box.width / 2, y: y + BAR / 2, text: `${text}\n${percentText(value / whole)}`});
    from += value;
  }
  return points;
}

/** A table below stacks that says which part is which, and how large in each. */
function stackTable(svg, width, {id, top, heads, rows}) {
  const step = Math.min(120, (width - 150) / heads.length);
  const right = (index) => width - MARGINS.right - (heads.length - 1 - index) * step;
  heads.forEach((head, index) =>
    svg.append(label(right(index), top, head, {class: "label head", "text-anchor": "end"})),
  );
  rows.forEach(({text, series, values}, line) => {
    const y = top + (line + 1) * TABLE_ROW;
    svg.append(
      drawn("line", {class: "grid", x1: 0, x2: width - MARGINS.right, y1: y - 15, y2: y - 15}),
      ...hatchedBox(id, series, {x: 0, y: y - 11, width: 18, height: 13}),
      label(28, y, text),
      ...values.map((value, index) =>
        label(right(index), y, value, {class: "label figure-text", "text-anchor": "end"}),
      ),
    );
  });
  return top + rows.length * TABLE_ROW + 12;
}

/** Where the time of a pass goes. */
export const timeChart = {
  id: "time",
  title: "Where the time of a pass goes",
  hint: ({unit}) => unit,
  draw: (svg, width, {kernels}) => {
    const {groups, totals} = timeGroups(kernels);
    svg.append(hatchDefinitions("time"));
    const points = [];
    let top = 0;
    for (const [pass, name] of Object.entries(PASSES)) {
      const x = d3.scaleLinear([0, totals[pass] || 1], [0, width - MARGINS.right]);
      svg.append(
        label(0, top + 14, name, {class: "label strong"}),
        label(width - MARGINS.right, top + 14, secondsText(totals[pass]), {
          class: "label strong",
          "text-anchor": "end",
        }),
      );
      points.push(
        ...stackedBar(svg, "time", {
          x,
          y: top + 22,
          whole: totals[pass],
          parts: groups.map((group, series) => ({
            value: group[pass],
            series,
            text: `${name}: ${group.text}, ${secondsText(group[pass])}`,
          })),
        }),
      );
      top += 22 + BAR + 18;
    }
    const rows = groups.map((group, series) => ({
      text: group.text,
      series,
      values: [group.prefill, group.decode].map(secondsText),
    }));
    return {
      height: stackTable(svg, width, {id: "time", top: top + 12, heads: ["prefill", "decode step"], rows}),
      points,
    };
  },
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
      values: groups.map(({text, prefill, decode}) => [
        text,
        prefill,
        prefill / (totals.prefill || 1),
        decode,
        decode / (totals.decode || 1),
      ]),
    };
  },
  describe: ({kernels}) => {
    const {groups, totals} = timeGroups(kernels);
    return Object.entries(PASSES)
      .map(([pass, name]) => {
        const [first] = [...groups].sort((a, b) => b[pass] - a[pass]);
        const most = first ? `, most of it ${first.text} (${percentText(first[pass] / totals[pass])})` : "";
        return `${name}: ${secondsText(totals[pass])}${most}.`;
      })
      .join(" ");
  },
};

/** Kernels that have a place under the roofs. */
function roofed(kernels) {
  return kernels
    .filter(({flop, nbytes, time}) => flop > 0 && nbytes > 0 && time > 0)
    .map((kernel) => ({...kernel, intensity: kernel.flop / kernel.nbytes, rate: kernel.flop / kernel.time}));
}

/** Kernels under the roofs of the GPU. */
export const rooflineChart = {
  id: "roofline",
  title: "Kernels under the roofline",
  draw: drawRoofline,
  rows: ({kernels, roofs}) => ({
    columns: columnsOf([
      ["pass", "pass", "text"],
      ["kernel", "kernel", "text"],
      ["flop_per_byte", "FLOP/byte"],
      ["flop_s", "FLOP/s reached"],
      ["flop", "FLOP"],
      ["nbytes", "bytes"],
      ["time_s", "time [s]"],
      ["share", "share of the pass"],
    ]),
    values: [
      ...roofed(kernels).map((each) => [
        each.pass,
        each.name,
        each.intensity,
        each.rate,
        each.flop,
        each.nbytes,
        each.time,
        each.share,
      ]),
      ...roofs.map(({dtype, peak, bandwidth}) => ["roof", dtype, peak / bandwidth, peak, null, null, null, null]),
    ],
  }),
  describe: ({kernels, roofs}) => {
    const roof = roofs.map(
      ({dtype, peak, bandwidth}) =>
        `The ${dtype} roof is ${quantityText(peak, "FLOP/s")} and ${quantityText(bandwidth, "B/s")}, which meet at ${threeDigits(peak / bandwidth)} FLOP/byte.`,
    );
    const top = Object.keys(PASSES).map((pass) => {
      const [first] = roofed(kernels)
        .filter((each) => each.pass === pass)
        .sort((a, b) => b.share - a.share);
      return first
        ? `In ${pass}, ${first.name} reaches ${quantityText(first.rate, "FLOP/s")} at ${threeDigits(first.intensity)} FLOP/byte.`
        : "";
    });
    return [...roof, ...top].join(" ");
  },
};

/** Places for labels that do not lie on each other; a label without a place is left out. */
function placedLabels(candidates, right) {
  const taken = [];
  const placed = [];
  for (const {x, y, text} of candidates) {
    const long = text.length * 6.3;
    const choices = [
      [x + 9, y + 4],
      [x - 9 - long, y + 4],
      [x - long / 2, y - 11],
      [x - long / 2, y + 18],
    ];
    const free = choices.find(
      ([left, base]) =>
        left > MARGINS.left &&
        left + long < right &&
        taken.every((other) => left > other.right || left + long < other.left || Math.abs(base - other.base) > 13),
    );
    if (free) {
      taken.push({left: free[0], right: free[0] + long, base: free[1]});
      placed.push({text, x: free[0], y: free[1]});
    }
  }
  return placed;
}

/** Draws roofs and kernels on logarithmic axes. */
function drawRoofline(svg, width, {kernels, roofs}) {
  const shown = roofed(kernels);
  const items = [
    {kind: "mark", series: 0, text: "prefill"},
    {kind: "mark", series: 1, text: "decode"},
    {kind: "roof", text: "hardware limit"},
  ];
  const top = drawLegend(svg, width, items) + 30;
  const ridges = roofs.map(({peak, bandwidth}) => peak / bandwidth);
  const [least, most] = bounds([...shown.map(({intensity}) => intensity), ...ridges.map((ridge) => ridge * 4), 1]);
  const x = d3.scaleLog(logDomain([least, most], 0.03), [MARGINS.left, width - MARGINS.right]);
  const [low] = bounds(shown.map(({rate}) => rate));
  const high = Math.max(...roofs.map(({peak}) => peak));
  const y = d3.scaleLog([Math.min(low / 2, high / 1e3), high * 2.2], [top + 300, top]).clamp(true);
  drawAxes(svg, {
    x,
    y,
    xTicks: logTicks(x.domain(), Math.max(3, Math.floor(width / 100))),
    yTicks: logTicks(y.domain(), 6),
    xText: shortNumber,
    yText: (value) => quantityText(value, ""),
    xTitle: "intensity [FLOP/byte]",
    yTitle: "rate reached [FLOP/s]",
  });
  for (const {dtype, peak, bandwidth} of roofs) {
    const [from, to] = x.domain();
    const ridge = Math.min(Math.max(peak / bandwidth, from), to);
    const start = Math.max(from, y.domain()[0] / bandwidth);
    const path = [
      [start, start * bandwidth],
      [ridge, Math.min(peak, ridge * bandwidth)],
      [to, peak],
    ];
    svg.append(
      drawn("path", {class: "roof-line", d: d3.line()(path.map(([a, b]) => [x(a), y(b)]))}),
      label(x(to), y(peak) - 6, `${dtype} ${quantityText(peak, "FLOP/s")}`, {"text-anchor": "end"}),
    );
  }
  const points = shown.map((each) => {
    const place = {x: x(each.intensity), y: y(each.rate)};
    svg.append(marker(each.pass === "prefill" ? 0 : 1, place.x, place.y, 30 + 260 * each.share));
    const work = `${threeDigits(each.intensity)} FLOP/byte, ${quantityText(each.rate, "FLOP/s")}`;
    return {...place, each, text: `${each.pass}: ${each.name} (${percentText(each.share)} of the pass)\n${work}`};
  });
  const wanted = [...points]
    .sort((a, b) => b.each.share - a.each.share)
    .filter(({each}) => each.share > 0.04)
    .slice(0, 8);
  const labels = placedLabels(
    wanted.map(({each, x: px, y: py}) => ({x: px, y: py, text: each.name})),
    width,
  );
  svg.append(...labels.map(({x: px, y: py, text}) => label(px, py, text, {class: "label on-plot"})));
  return {height: top + 300 + MARGINS.bottom, points};
}

/** Parts of the memory of an answer that are there. */
function memoryParts({memory}) {
  return Object.entries(MEMORY)
    .map(([key, text], series) => ({key, text, series, value: memory[key]}))
    .filter(({value}) => isFigure(value) && value > 0);
}

/** What fills the memory of a GPU, against what is usable. */
export const memoryChart = {
  id: "memory",
  title: "Memory of one GPU",
  draw: (svg, width, {answers}) => {
    svg.append(hatchDefinitions("memory"));
    const most = Math.max(...answers.flatMap(({memory}) => [memory.usable, memory.used])) * 1.03;
    const x = d3.scaleLinear([0, most], [0, width - MARGINS.right]);
    const points = [];
    let top = 0;
    for (const answer of answers) {
      const {memory, question, plan} = answer;
      const fits = memory.fits ? "" : ", does not fit";
      svg.append(
        label(0, top + 14, `${question.gpu}, tp ${plan.tp}`, {class: "label strong"}),
        label(
          width - MARGINS.right,
          top + 14,
          `${quantityText(memory.used, "B")} of ${quantityText(memory.usable, "B")}${fits}`,
          {
            class: "label strong",
            "text-anchor": "end",
          },
        ),
        drawn("rect", {class: "rail", x: 0, y: top + 22, width: x(memory.usable), height: BAR}),
      );
      points.push(
        ...stackedBar(svg, "memory", {
          x,
          y: top + 22,
          whole: memory.usable,
          parts: memoryParts(answer).map((part) => ({
            ...part,
            text: `${question.gpu}: ${part.text}, ${quantityText(part.value, "B")}`,
          })),
        }),
      );
      svg.append(drawn("path", {class: "limit-line", d: `M${x(memory.usable)} ${top + 18}v${BAR + 8}`}));
      top += 22 + BAR + 18;
    }
    const texts = Object.values(MEMORY);
    const rows = texts
      .map((text, series) => ({
        text,
        series,
        values: answers.map((each) => memoryParts(each).find((part) => part.text === text)?.value),
      }))
      .filter(({values}) => values.some(isFigure));
    const shown = rows.map((row) => ({
      ...row,
      values: row.values.map((value) => (isFigure(value) ? quantityText(value, "B") : "-")),
    }));
    const heads = answers.length > 1 ? answers.map(({question}) => question.gpu) : ["bytes"];
    return {height: stackTable(svg, width, {id: "memory", top: top + 12, heads, rows: shown}), points};
  },
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
  describe: ({answers}) =>
    answers
      .map((answer) => {
        const parts = memoryParts(answer)
          .map(({text, value}) => `${text} ${quantityText(value, "B")}`)
          .join(", ");
        return `${answer.question.gpu}: ${parts}, of ${quantityText(answer.memory.usable, "B")} usable.`;
      })
      .join(" "),
};
