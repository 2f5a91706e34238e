// A planner's own GPU, described by a few figures.

import {Refused} from "./refusals.js";

/** Its record: of a generation that was never timed. */
export function ownGpu(contents, own) {
  const like = contents.raw.own;
  const {peak, bandwidth, memory: size, link} = own;
  for (const [name, value] of Object.entries({peak, bandwidth, memory: size})) {
    if (!(value > 0 && Number.isFinite(value))) throw new Refused("BadInput", `${name} of ${own.name} must be above 0`);
  }
  const isAlone = !(link > 0);
  const numbers = {...like.numbers, bandwidth, memory: size};
  Object.assign(numbers, isAlone ? {domain: 1, host_domain: 1} : {link, peer: link, host_link: link});
  const settings = ["max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization"];
  const runs = like.runs.map((run, place) => [
    ...run.slice(0, 3),
    ...settings.map((name, at) => settingOf(contents.raw.engines[place].byGpu[name], own, run[3 + at])),
  ]);
  return {
    ...like,
    runs,
    name: own.name,
    peaks: {bf16: peak},
    bandwidth,
    memory: size,
    numbers,
    isAlone,
    node: isAlone ? 1 : like.node,
    price: null,
  };
}

/** The default of an engine's setting on a planner's own GPU. */
function settingOf(rules, own, otherwise) {
  const holds = ([, least, others]) => own.memory >= least && !others.some((part) => own.name.includes(part));
  return rules ? rules.find(holds)[0] : otherwise;
}

/** Name of the file that the lines for a shell and for Python read. */
export function ownFile({name}) {
  return `${name.replace(/[^\w.-]+/g, "-").replace(/^[-.]+/, "") || "own"}.yaml`;
}

/** The same GPU as a specification (YAML), which `roofline predict` reads as a file. */
export function ownSpecification(contents, {name, peak, bandwidth, memory: size, link, price}) {
  const origin = "source: page, note: as typed"; // a note, as an unusual figure without one is refused
  const figure = (value, unit) => `{value: ${plainFigure(value)} ${unit}, ${origin}}`;
  const lines = [
    `name: ${JSON.stringify(name)}`,
    "vendor: own",
    `generation: ${contents.raw.own.generation}`,
    "peak:",
    `  bf16: ${figure(peak, "FLOP/s")}`,
    "memory:",
    `  label: ${figure(size, "B")}`,
    `  usable: ${figure(size, "B")}`,
    `  bandwidth: ${figure(bandwidth, "B/s")}`,
  ];
  if (link > 0) {
    lines.push("scale_up:", `  kind: ${contents.raw.own.linkKind}`, `  bandwidth: ${figure(link, "B/s")}`);
    lines.push(`  domain: {value: ${contents.raw.own.numbers.domain}, source: page}`);
    lines.push("  in_switch_reduction: {value: false, source: page}");
  }
  if (price !== null) {
    const rent = `${plainFigure(price)} USD/h`;
    lines.push(`price: {low: ${rent}, typical: ${rent}, high: ${rent}, ${origin}}`);
  }
  lines.push("sources:", `  page: {title: figures of a page of roofline, date: ${contents.built}}`);
  return `${lines.join("\n")}\n`;
}

/** A figure without an exponent. */
function plainFigure(value) {
  return value.toLocaleString("en-US", {useGrouping: false, maximumFractionDigits: 20});
}
