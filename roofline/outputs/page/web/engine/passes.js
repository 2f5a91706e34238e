// Passes of a deployment: kernels of its layers from the printed formulas, their sums, and what follows from them.

import {
  LAYERS,
  SHAPES,
  CLASSES,
  averaged_steps,
  bound_times,
  chunk,
  decode_host,
  memory_rules,
  padding_bytes,
  part_times,
  pass_time,
  per_sequence,
  prefill_host,
  prompt,
  times_of_chunks,
  token_bytes,
  variance_of_groups,
  sides_of,
} from "./programs.js";

const MOST_KEPT = 4000; // passes of a deployment
const NETWORK = CLASSES.findIndex(([kind, , part]) => kind === "host" && part === "network");
const HOST = CLASSES.findIndex(([kind, , part, name]) => kind === "host" && !part && !name);
const LAUNCHES = CLASSES.findIndex(([kind, , , name]) => kind === "host" && name);

/** A pass over prompts: so many, of so many new tokens after cached ones. */
function prefillPass(e, batch, fresh, cached) {
  return kept(e, `p ${batch} ${fresh} ${cached}`, () => passOf(e, "prefill", batch, fresh, cached));
}

/** A mean decode step. */
function decodePass(e, batch, context, steps) {
  return kept(e, `d ${batch} ${context} ${steps}`, () => passOf(e, "decode", batch, context, steps));
}

function kept(e, key, make) {
  let found = e.passes.get(key);
  if (found === undefined) {
    if (e.passes.size >= MOST_KEPT) e.passes.clear();
    found = make();
    e.passes.set(key, found);
  }
  return found;
}

/** A pass: its kernels as [count, terms, shape] in turn, time of each class, launches. */
function passOf(e, context, x0, x1, x2) {
  const pass = {kernels: [], times: new Float64Array(CLASSES.length), launches: 0};
  const around = context === "decode" ? 1 : x1; // tokens that a sequence computes
  const of = context === "decode" ? e.decoding : e; // whose constants differ where servers told them
  add(pass, SHAPES[e.model.frame], LAYERS[e.model.frame](of, undefined, x0, around, x2), undefined);
  for (const layer of e.layerSet) {
    const name = LAYERS[layer.kind] ? layer.kind : `${layer.kind}_${context}`;
    const isFfn = name === layer.kind;
    add(pass, SHAPES[name], LAYERS[name](of, layer, x0, isFfn ? around : x1, x2), layer);
  }
  const time = pass_time(pass.times)[0];
  const hosts =
    context === "decode" ? decode_host(e, x0, pass.launches, time) : prefill_host(e, x0, pass.launches, time);
  pass.waiting = hosts[0];
  pass.host = hosts[1];
  pass.hostName = context === "decode" ? "host, decode step" : "host, prefill";
  pass.times[LAUNCHES] += hosts[0];
  pass.times[HOST] += hosts[1];
  return pass;
}

/** Adds the kernels of a layer, or of what surrounds the layers. */
function add(pass, shapes, found, layer) {
  for (let place = 0; place < shapes.length; place += 1) {
    const count = found[2 * place];
    if (count === 0) continue;
    const [, at, launches] = shapes[place];
    pass.times[at] += count * found[2 * place + 1][0];
    pass.launches += count * launches;
    pass.kernels.push(count, found[2 * place + 1], shapes[place], layer);
  }
}

/** The same with all counts times a number. */
function scaled(pass, factor) {
  if (factor === 1) return pass;
  const kernels = pass.kernels.map((each, place) => (place % 4 ? each : factor * each));
  const times = pass.times.map((time) => factor * time);
  return {...pass, kernels, times, waiting: factor * pass.waiting, host: factor * pass.host};
}

/** Prompts of a case with the host's time before: of hits and misses of a cache by their shares. */
function promptsPass(e, w) {
  return kept(e, `prompts ${w.isl} ${w.batch} ${w.prefix} ${w.hit}`, () => {
    const kinds =
      w.hit === null
        ? [[1, w.prefix]]
        : [
            [w.hit, w.prefix],
            [1 - w.hit, 0],
          ];
    const all = {kernels: [], times: new Float64Array(CLASSES.length), launches: 0, waiting: 0, host: 0, chunks: 1};
    for (const [weight, prefix] of kinds) {
      const [computed, cached] = prompt(e, w.isl, prefix);
      const [count, fresh, before] = chunk(e, computed, cached);
      const pass = scaled(prefillPass(e, w.batch, fresh, before), weight * count);
      all.kernels.push(...pass.kernels);
      pass.times.forEach((time, place) => {
        all.times[place] += time;
      });
      all.waiting += pass.waiting;
      all.host += pass.host;
    }
    all.hostName = "host, prefill";
    all.network = e.network;
    all.request = e.request;
    all.times[NETWORK] += e.network;
    all.times[HOST] += e.request;
    return all;
  });
}

/** The mean decode step of a case. */
function stepPass(e, w, s) {
  return decodePass(e, s ? s.batch : w.batch, w.isl, averaged_steps(w.osl)[0]);
}

/** Variance of the logarithm of a pass. */
function varianceOf(e, pass) {
  const times = new Float64Array(CLASSES.length);
  pass.times.forEach((time, place) => {
    times[e.slots[place]] += time;
  });
  return variance_of_groups(e, times, e.sigmas);
}

/** Time of the kernels of each bound [s]. */
export function boundsOf(pass) {
  const sums = [0, 0, 0, 0, 0];
  for (let place = 0; place < pass.kernels.length; place += 4) {
    bound_times(pass.kernels[place], pass.kernels[place + 1]).forEach((time, at) => {
      sums[at] += time;
    });
  }
  sums[4] += pass.waiting + pass.host + (pass.network ?? 0) + (pass.request ?? 0); // of the host: latency
  return sums;
}

/** Compute and memory time of the weight-bearing kernels of a pass [s]. */
function sidesOf(pass) {
  const sums = [0, 0];
  for (let place = 0; place < pass.kernels.length; place += 4) {
    if (!pass.kernels[place + 2][3]) continue;
    sides_of(pass.kernels[place], pass.kernels[place + 1]).forEach((time, at) => {
      sums[at] += time;
    });
  }
  return sums;
}

// What the printed programs call, by the names that they use.

export function decode_kernels_part_times(e, batch, context, steps) {
  return part_times(decodePass(e, batch, context, steps).times);
}

export function decode_kernels_time(e, batch, context, steps) {
  return pass_time(decodePass(e, batch, context, steps).times);
}

export function decode_kernels_sides(e, batch, context, steps) {
  return sidesOf(decodePass(e, batch, context, steps));
}

export function prefill_kernels_linear_time(e, batch, fresh, cached) {
  return part_times(prefillPass(e, batch, fresh, cached).times);
}

/** Linear time of tokens of which some are decoded, which layers that skip most of a prompt compute too. */
export function mixed_time(e, ranks, tokens, decoded) {
  if (e.late === 0) return prefill_kernels_linear_time(e, ranks, tokens, 0);
  const most = decoded + Math.min(tokens - decoded, e.last);
  const [one, through, few] = [
    [ranks * most, 1],
    [ranks, tokens],
    [ranks, most],
  ].map(([batch, fresh]) => prefill_kernels_linear_time(e, batch, fresh, 0)[0]);
  return [through + one - few];
}

export function prefill_kernels_time(e, batch, fresh, cached) {
  return pass_time(prefillPass(e, batch, fresh, cached).times);
}

export function prefill_kernels_per_sequence(e, batch, fresh, cached) {
  return per_sequence(prefillPass(e, batch, fresh, cached).times);
}

export function prompt_times(e, tokens, cached) {
  const [count, fresh, before] = chunk(e, tokens, cached);
  const pass = prefillPass(e, 1, fresh, before);
  return times_of_chunks(e, count, pass.launches, pass.times);
}

export function prompts_time(e, w) {
  return pass_time(promptsPass(e, w).times);
}

export function prompts_variance(e, w) {
  return varianceOf(e, promptsPass(e, w));
}

export function step_time(e, w, s) {
  return pass_time(stepPass(e, w, s).times);
}

export function step_variance(e, w, s) {
  return varianceOf(e, stepPass(e, w, s));
}

/** Both passes of a case: prompts, and a mean decode step. */
export function passesOf(e, w, s) {
  return {prefill: promptsPass(e, s ? {...w, batch: 1} : w), decode: stepPass(e, w, s)};
}

// Memory.

/** What the layers of the fullest stage hold where sequences are so long. */
function heldOf(e, length) {
  let found = e.held.get(length);
  if (found !== undefined) return found;
  const parts = e.layerSet.map((layer) => LAYERS[`${layer.kind}_held`](e, layer, length));
  const stages = e.model.stages[e.pp - 1].map((row) => stageOf(e, row, parts));
  const widest = Math.max(...parts.map((part, place) => (isNetwork(e, place) ? part[8] : 0)));
  const most = (name) => Math.max(...stages.map((stage) => stage[name]));
  found = {
    weights: most("weights"),
    sequence: most("kept"),
    prefix: most("read"),
    token: token_bytes(e, widest)[0],
    layers: most("layers"),
    padding: e.pads ? padding_bytes(e, most("experts"), paddingOf(e, parts))[0] : 0,
  };
  if (e.held.size >= MOST_KEPT) e.held.clear();
  e.held.set(length, found);
  return found;
}

function isNetwork(e, place) {
  return LAYERS[e.layerSet[place].kind] !== undefined;
}

function paddingOf(e, parts) {
  return Math.max(...parts.map((part, place) => (isNetwork(e, place) && part.length > 9 ? part[9] : 0)));
}

function stageOf(e, row, parts) {
  const numbers = new Float64Array(8);
  const stage = {read: 0, kept: 0, layers: 0, experts: 0};
  parts.forEach((part, place) => {
    for (let section = 0; section < 8; section += 1) numbers[section] += row[place] * part[section];
    if (isNetwork(e, place)) return;
    stage.layers += row[place];
    stage.read += row[place] * part[8];
    stage.kept += row[place] * part[9];
  });
  const [isFirst, isLast] = row.slice(-2);
  stage.experts = numbers[3];
  stage.weights = LAYERS[`${e.model.frame}_stage`](e, {is_first: isFirst, is_last: isLast}, numbers)[0];
  return stage;
}

/** Memory of the fullest GPU: weights, KV cache, activations, reserve, usable, prefixes [B]. */
export function memory(e, batch, length) {
  const own = e.measured ?? e;
  return memory_rules[own.rule][0](own, heldOf(own, length), batch, length);
}

export function largest_batch(e, length) {
  const own = e.measured ?? e;
  return memory_rules[own.rule][1](own, heldOf(own, length), length);
}

export function prefix_bytes(e, prefix) {
  return [heldOf(e, prefix).prefix];
}
