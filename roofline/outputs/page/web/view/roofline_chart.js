/** Kernels under the roofs of the GPU. */

import {MARGINS, bounds, drawAxes, drawLegend, label, logDomain, logTicks, marker, shortNumber} from "./axes.js";
import {drawn} from "./dom.js";
import {columnsOf} from "./frames.js";
import {percentText, quantityText, threeDigits} from "./text.js";

const TALL_ROOFS = 306;
const NAME_CHARACTER = 6.3;
const CLOSE = 20;
const NAMED_SHARE = 0.04;

/** Kernels that have a place under the roofs. */
function roofed(kernels) {
  return kernels
    .filter(({flop, nbytes, time}) => flop > 0 && nbytes > 0 && time > 0)
    .map((kernel) => ({kernel, intensity: kernel.flop / kernel.nbytes, rate: kernel.flop / kernel.time}));
}

/** Names for points, the largest first; one name for points of a pass that lie on each other. */
function pointNames(points) {
  const names = [];
  for (const point of d3.sort(points, ({kernel}) => -kernel.share)) {
    const near = names.find(
      ({first}) => first.kernel.pass === point.kernel.pass && Math.hypot(first.x - point.x, first.y - point.y) < CLOSE,
    );
    if (near) {
      near.others += 1;
    } else if (point.kernel.share > NAMED_SHARE) {
      names.push({first: point, others: 0});
    }
  }
  return names.map(({first, others}) => ({
    x: first.x,
    y: first.y,
    text: others > 0 ? `${first.kernel.name} +${others}` : first.kernel.name,
  }));
}

/** Places of names that lie neither on each other nor on points; a name without a place is left out. */
function placedNames(names, points, taken, right) {
  const placed = [];
  for (const {x, y, text} of names) {
    const long = text.length * NAME_CHARACTER;
    const choices = [
      [x + 10, y + 4],
      [x - 10 - long, y + 4],
      [x - long / 2, y - 12],
      [x - long / 2, y + 20],
      [x + 8, y + 18],
      [x - long - 8, y - 10],
      [x - long + 8, y + 22],
    ];
    const isFree = ([left, base]) =>
      left > MARGINS.left &&
      left + long < right &&
      taken.every((box) => left > box.right || left + long < box.left || Math.abs(base - box.base) > 13) &&
      points.every((point) => point.x < left - 4 || point.x > left + long + 4 || Math.abs(point.y - base + 4) > 9);
    const place = choices.find(isFree);
    if (place) {
      taken.push({left: place[0], right: place[0] + long, base: place[1]});
      placed.push(label(place[0], place[1], text, {class: "label on-plot"}));
    }
  }
  return placed;
}

/** Draws the roofs; returns the places that their names take. */
function drawRoofs(svg, roofs, x, y) {
  const taken = [];
  for (const {dtype, peak, bandwidth} of roofs) {
    const [from, to] = x.domain();
    const ridge = Math.min(Math.max(peak / bandwidth, from), to);
    const start = Math.max(from, y.domain()[0] / bandwidth);
    const corners = [
      [start, start * bandwidth],
      [ridge, Math.min(peak, ridge * bandwidth)],
      [to, peak],
    ];
    const text = `${dtype} ${quantityText(peak, "FLOP/s")}`;
    svg.append(
      drawn("path", {class: "roof-line", d: d3.line()(corners.map(([across, up]) => [x(across), y(up)]))}),
      label(x(to), y(peak) - 7, text, {class: "label on-plot", "text-anchor": "end"}),
    );
    taken.push({left: x(to) - text.length * NAME_CHARACTER, right: x(to), base: y(peak) - 7});
  }
  return taken;
}

/** Draws roofs and kernels on logarithmic axes. */
function drawRoofline(svg, width, {kernels, roofs}) {
  const shown = roofed(kernels);
  const legend = [
    {kind: "mark", series: 0, text: "prefill"},
    {kind: "mark", series: 1, text: "decode"},
    {kind: "roof", text: "hardware limit"},
  ];
  const top = drawLegend(svg, width, legend) + 30;
  const ridges = roofs.map(({peak, bandwidth}) => (4 * peak) / bandwidth);
  const xBounds = bounds([...shown.map(({intensity}) => intensity), ...ridges, 1]);
  const [slowest] = bounds(shown.map(({rate}) => rate));
  const most = Math.max(...roofs.map(({peak}) => peak));
  const x = d3.scaleLog(logDomain(xBounds, 0.03), [MARGINS.left, width - MARGINS.right]);
  const y = d3.scaleLog([Math.min(slowest / 2, most / 1e3), most * 2.4], [top + TALL_ROOFS, top]).clamp(true);
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
  const taken = drawRoofs(svg, roofs, x, y);
  const points = shown.map(({kernel, intensity, rate}) => {
    const place = {x: x(intensity), y: y(rate)};
    svg.append(marker(kernel.pass === "prefill" ? 0 : 1, place.x, place.y, 30 + 220 * kernel.share));
    const title = `${kernel.pass}: ${kernel.name}, ${percentText(kernel.share)} of the pass`;
    const work = `${threeDigits(intensity)} FLOP/byte, ${quantityText(rate, "FLOP/s")}`;
    return {x: place.x, y: place.y, kernel, text: `${title}\n${work}`};
  });
  svg.append(...placedNames(pointNames(points), points, taken, width - MARGINS.right));
  return {height: top + TALL_ROOFS + MARGINS.bottom, points};
}

/** Roofs, and the longest kernel of each pass, in words. */
function rooflineSentence({kernels, roofs}) {
  const limits = roofs.map(({dtype, peak, bandwidth}) => {
    const rates = `${quantityText(peak, "FLOP/s")} and ${quantityText(bandwidth, "B/s")}`;
    return `The ${dtype} roof is ${rates}, which meet at ${threeDigits(peak / bandwidth)} FLOP/byte.`;
  });
  const longest = ["prefill", "decode"].flatMap((pass) => {
    const own = roofed(kernels).filter(({kernel}) => kernel.pass === pass);
    const [first] = d3.sort(own, ({kernel}) => -kernel.share);
    if (!first) {
      return [];
    }
    const work = `${quantityText(first.rate, "FLOP/s")} at ${threeDigits(first.intensity)} FLOP/byte`;
    return [`In ${pass}, ${first.kernel.name} reaches ${work}.`];
  });
  return [...limits, ...longest].join(" ");
}

/** Kernels under the roofs of the GPU. */
export const rooflineChart = {
  id: "roofline",
  title: "Kernels under the roofline",
  hint: () => "The larger a mark, the more of its pass it takes.",
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
      ...roofed(kernels).map(({kernel, intensity, rate}) => {
        const {pass, name, flop, nbytes, time, share} = kernel;
        return [pass, name, intensity, rate, flop, nbytes, time, share];
      }),
      ...roofs.map(({dtype, peak, bandwidth}) => ["roof", dtype, peak / bandwidth, peak, null, null, null, null]),
    ],
  }),
  describe: rooflineSentence,
};
