// The numbers of a deployment, under the names that the printed formulas read: `e`.

import {SECTIONS, ROOFS, CLASSES, COLLECTIVES, CONSTANTS, WIDER} from "./programs.js";

const MOST_ENVIRONMENTS = 600; // that are kept
const UNLIMITED = 1e9; // tokens of a step, sequences of a rank
const HOST_TIMES = [
  "request",
  "network",
  "prefill",
  "step",
  "layer",
  "sequence",
  "all_reduce",
  "arrival",
  "launch",
  "launch_decode",
];
const LINK = ["a0", "a1", "a2", "q", "eta", "eta_switch"];

/**
 * The numbers of a deployment, kept for the next question about it.
 * @param contents of the page.
 * @param parts model, gpu, engine (records), formats (of `formatsOf`), plan, replicas, price [USD/h], network [s], basis,
 *   own: figures of a planner's own GPU, or null, isChanged: whether the GPU is not that of its name, and is not kept.
 */
export function environmentOf(contents, parts) {
  const {model, gpu, engine, formats, plan, replicas, price, network, basis, own, isChanged} = parts;
  if (isChanged) return environment(contents, parts);
  const names = [model.name, gpu.name, engine.name, formats.name, Object.values(plan), replicas, price, network, basis];
  const key = [...names, JSON.stringify(own)].join("|");
  let found = contents.environments.get(key);
  if (found === undefined) {
    if (contents.environments.size >= MOST_ENVIRONMENTS) contents.environments.clear();
    found = environment(contents, parts);
    contents.environments.set(key, found);
  }
  return found;
}

/** The numbers of a deployment. */
function environment(contents, parts) {
  const {model, gpu, engine, formats, plan, replicas, price, network} = parts;
  const run = gpu.runs[contents.engines.indexOf(engine.name)];
  const [table, link, , budget, sequences, utilization, stepTable, stepLink] = run;
  const e = {...model.numbers, ...engine.numbers, ...gpu.numbers, ...plan};
  e.replicas = replicas;
  e.price = price === null ? 0 : price / 3600;
  e.network += network;
  e.max_num_batched_tokens = budget ?? UNLIMITED;
  e.max_num_seqs = sequences ?? UNLIMITED * UNLIMITED;
  e.gpu_memory_utilization = utilization;
  e.max_context = model.maxContext ?? Infinity;
  e.exp_rate = gpu.numbers.exp_rate ?? Infinity;
  e.kv_nbytes = formats.kv.nbytes;
  for (const section of SECTIONS) {
    const scheme = formats.schemes[section];
    e[`${section}_w`] = scheme.nbytes;
    e[`${section}_a`] = scheme.activation;
    e[`${section}_d`] = scheme.isDynamic;
  }
  e.start = engine.start;
  e.rule = engine.rule;
  e.pads =
    engine.rule > 0 && engine.start.padded_experts > 1 && formats.schemes.experts.format === "mxfp4" && model.moe;
  [e.sigma_ttft, e.sigma_tpot, e.sigma_loaded_ttft] = engine.sigma;
  e.links = linksOf(contents.raw.links[link], plan, gpu);
  e.roofs = roofsOf(contents, parts, contents.raw.tables[table]);
  [e.slots, e.sigmas] = groupsOf(contents, parts, e);
  e.wider = gpu.basis === "inherited" ? WIDER : 1;
  e.is_ideal = false;
  e.layerSet = layersOf(model);
  e.model = model;
  e.passes = new Map();
  e.held = new Map();
  e.decoding = e;
  if (stepTable !== undefined) {
    const links = linksOf(contents.raw.links[stepLink], plan, gpu);
    e.decoding = {...e, links, roofs: roofsOf(contents, parts, contents.raw.tables[stepTable])};
  }
  e.ideal = idealOf(e);
  return parts.basis === "ideal" ? Object.assign(e.ideal, {ideal: e.ideal}) : e;
}

/** The same at the hardware limit: full rates, and no host. */
function idealOf(e) {
  const ideal = {...e, is_ideal: true, passes: new Map(), measured: e};
  for (const name of HOST_TIMES) ideal[name] = 0;
  ideal.decoding = ideal;
  ideal.prefill_slowdown = 1;
  ideal.max_num_batched_tokens = UNLIMITED;
  ideal.roofs = {};
  for (const [name, roof] of Object.entries(e.roofs)) ideal.roofs[name] = {...roof, order: 0, peak: roof.rated};
  return ideal;
}

/** Layers with their numbers by name, as the printed functions take them. */
function layersOf(model) {
  return model.layers.map(([kind, count, numbers]) => {
    const layer = {kind, count};
    ROOFS.numbers[kind].forEach((name, place) => {
      layer[name] = numbers[place];
    });
    return layer;
  });
}

/** Constants of collectives, over the scale-up link and over PCIe. */
function linksOf(rows, plan, gpu) {
  const links = {};
  COLLECTIVES.forEach((kind, place) => {
    for (const [name, row] of [
      [kind, rows[2 * place]],
      [`${kind}_pcie`, rows[2 * place + 1]],
    ]) {
      links[name] = Object.fromEntries(LINK.map((constant, at) => [constant, row[at]]));
    }
    const used = isBeyond(gpu, ranksOf(kind, plan, gpu)) ? rows[2 * place + 1] : rows[2 * place];
    [links[kind].sigma, links[kind].isMeasured] = used.slice(LINK.length);
  });
  return links;
}

/** Whether so many ranks work over PCIe, as bridges join fewer. */
function isBeyond(gpu, ranks) {
  return gpu.hasBridge && ranks > gpu.numbers.domain;
}

/** Ranks of the last collective of a kind in a pass. */
function ranksOf(kind, {tp, pp, ep, dp}, gpu) {
  const sharing = (tp * dp) / ep;
  if (kind === "all_reduce") return tp;
  if (kind === "all_gather") return tp > 1 ? tp : sharing;
  if (kind === "reduce_scatter") return sharing;
  if (kind !== "p2p") return ep;
  const leaving = (domain) => Math.min(pp - 1, Math.floor(((pp - 1) * tp * dp) / domain));
  if (leaving(gpu.node) > 0) return gpu.node + 1;
  return leaving(gpu.numbers.domain) < pp - 1 ? 2 : gpu.numbers.domain + 1;
}

/** Key of the calibration and dtype of the units of a kind of kernel at a section or format. */
function keyOf(formats, key) {
  if (key === "kv") return [formats.kv.key, formats.kv.peak];
  if (key === "bf16") return ["bf16", formats.sixteenBit];
  if (key === "fp8") return [formats.scores, formats.scores];
  return [formats.schemes[key].key, formats.schemes[key].peak];
}

/** Roofs of all kinds of kernels. */
function roofsOf(contents, parts, table) {
  const {gpu, formats, plan, engine} = parts;
  const roofs = {};
  for (const [name, kind, key, order] of ROOFS.roofs) {
    const [dtype, peakName] = keyOf(formats, key);
    const place = contents.roofPlace.get(`${kind} ${dtype}`);
    if (place === undefined) continue; // no model of the page has such kernels
    const row = contents.raw.efficiencies[table[place]];
    const roof = {order, kind, dtype, bandwidth: gpu.bandwidth, exp_rate: gpu.numbers.exp_rate ?? Infinity};
    CONSTANTS.forEach((constant, at) => {
      roof[constant] = row[at];
    });
    const [spread, sigma, isMeasured, units] = row.slice(CONSTANTS.length);
    const peak = gpu.peaks[peakName];
    roof.rated = peak; // whatever units an engine uses
    roof.peak = units === null ? peak : Math.min(peak, gpu.peaks[units] ?? peak);
    roof.sigma = sigma;
    roof.isMeasured = isMeasured;
    if (kind === "moe" && plan.ep > 1) roof.t0 = spread;
    roofs[name] = roof;
    roofs[`${name}_beside`] = engine.overlaps.length ? {...roof, t0: 0} : roof;
  }
  return roofs;
}

/** Classes whose times have one error: place of the first class of each, and the sigma of each class. */
function groupsOf(contents, parts, e) {
  const first = new Map();
  const slots = [];
  const sigmas = [];
  CLASSES.forEach(([kind, key, part], place) => {
    const isHost = kind === "host";
    const isLink = COLLECTIVES.includes(kind);
    const dtype = isHost ? part : isLink ? "" : keyOf(parts.formats, key)[0];
    const group = `${kind} ${dtype}`;
    if (!first.has(group)) first.set(group, place);
    slots.push(first.get(group));
    const roof = isHost ? null : isLink ? e.links[kind] : e.roofs[`${kind}_${key}`];
    sigmas.push(roof ? roof.sigma : 0);
  });
  return [slots, sigmas];
}
