// Parallel plans: which divide a model, and the smallest that holds a load.

import {ANSWERS} from "./programs.js";
import {memory} from "./passes.js";

const MOST_RANKS = 1_000_000;
const MOST_SUGGESTED = 512; // tensor-parallel degree
const GAIN_OF_WIDER = 0.01; // relative gain in capacity that does not justify a wider plan

/** Why tensor parallelism does not divide a model; null if it does. */
function tpFault(model, tp) {
  for (const [number, of, isReplicated, isNetwork] of model.splits) {
    const fails = number % tp > 0;
    if (isNetwork) {
      if (fails) return `${of} ${number}`;
    } else if (!isReplicated) {
      if (fails) return `${number} ${of}`;
    } else if (fails && tp % number > 0) {
      return `${number} ${of} can be neither split nor replicated`;
    }
  }
  return null;
}

/** Why experts cannot be spread so; null if they can. */
function expertFault(model, {tp, dp, ep}) {
  if (ep > 1 && !model.experts.length) return `ep = ${ep} needs a mixture of experts; ${model.name} is dense`;
  if ((tp * dp) % ep > 0) return `ep = ${ep} must divide tp x dp = ${tp * dp}, the ranks that hold the experts`;
  const sharing = (tp * dp) / ep;
  for (const [experts, width] of model.experts) {
    if (experts % ep > 0) return `ep = ${ep} must divide the ${experts} experts of ${model.name}`;
    if (width % sharing > 0) {
      return `expert width ${width} of ${model.name} does not divide over ${sharing} ranks; use ep to keep experts whole`;
    }
  }
  return null;
}

/** Tensor-parallel degrees that divide a model, in ascending order. */
function possibleTp(model, most) {
  const found = [];
  for (let tp = 1; tp <= Math.min(most, model.whole || most); tp += 1) {
    if (model.whole % tp === 0 && tpFault(model, tp) === null) found.push(tp);
  }
  return found;
}

/** Why degrees are impossible for a model; null if they are not. */
function degreesFault(model, plan) {
  for (const name of ["tp", "pp", "ep", "dp"]) {
    const degree = plan[name];
    if (!Number.isInteger(degree) || degree < 1 || degree > MOST_RANKS) {
      return `${name} = ${degree} must be a whole number between 1 and ${MOST_RANKS}`;
    }
  }
  if (plan.pp > model.numbers.layers) {
    return `pp = ${plan.pp} must not exceed the ${model.numbers.layers} layers of ${model.name}`;
  }
  if (plan.pp > model.stages.length) return `pp = ${plan.pp}: this page knows at most ${model.stages.length} stages`;
  return null;
}

/** Why a plan does not divide a model; null if it does. */
export function planFault(model, plan) {
  const fault = degreesFault(model, plan);
  if (fault !== null) return fault;
  const why = tpFault(model, plan.tp);
  if (why !== null) {
    return `tp = ${plan.tp} does not divide ${model.name} (${why}); choose from ${possibleTp(model, MOST_SUGGESTED).join(", ")}`;
  }
  return expertFault(model, plan);
}

/** Why the ranks of a plan do not reach each other on a GPU; null if they do. */
export function linkFault(model, gpu, {tp, pp, ep, dp}) {
  const spread = dp > 1 && model.moe ? Math.max(ep, (tp * dp) / ep) : 1;
  const ranks = Math.max(tp, spread);
  const crossings = Math.min(pp - 1, Math.floor(((pp - 1) * tp * dp) / gpu.node));
  if ((ranks <= gpu.node && crossings === 0) || gpu.hasNetwork) return null;
  const most = [tp, spread].find((each) => each > gpu.node) ?? gpu.node + 1; // of a collective, or of a hand-over
  if (gpu.isAlone) {
    return `${most} ranks: ${gpu.name} works alone, as its specification has neither scale_up nor scale_out; use one`;
  }
  return (
    `${most} ranks exceed the ${gpu.node}-GPU ${gpu.nodeLink} domain of ${gpu.name}, whose specification has no ` +
    `scale-out network; use at most ${gpu.node} ranks`
  );
}

/** Largest tensor-parallel degree within a node; pipeline stages may lie in other nodes. */
function widestOf(gpu, plan) {
  return Math.max(Math.floor(gpu.node / plan.dp), 1);
}

/** Tensor-parallel degrees in a node that divide a model and its experts, in ascending order. */
function degreesOf(model, gpu, plan) {
  return possibleTp(model, widestOf(gpu, plan)).filter((tp) => expertFault(model, {...plan, tp}) === null);
}

/** The smallest tensor-parallel degree in a node at which a case fits; null where there is none. */
export function smallestTp(model, gpu, plan, fits) {
  return degreesOf(model, gpu, plan).find((tp) => fits({...plan, tp})) ?? null;
}

/** The fewest further pipeline stages at which a case fits, at the widest degree of a node; null where it never does. */
export function deeperPlan(model, gpu, plan, fits) {
  const tp =
    possibleTp(model, gpu.node)
      .reverse()
      .find((each) => expertFault(model, {...plan, tp: each}) === null) ?? 1;
  for (let pp = plan.pp + 1; pp <= model.stages.length; pp += 1) {
    if (!gpu.hasNetwork && tp * pp * plan.dp > gpu.node) return null;
    if (fits({...plan, tp, pp})) return {...plan, tp, pp};
  }
  return null;
}

/**
 * The tensor-parallel degree of a case where none is stated; 0 where no degree of a node fits.
 * A burst takes the smallest that holds it, users the smallest that holds all of them, a rate the smallest with a
 * saturation above it; where none does, the smallest of those that take the most.
 */
export function openTp(model, gpu, plan, w, name, environmentAt) {
  let chosen = 0;
  let best = 0;
  for (const tp of degreesOf(model, gpu, plan)) {
    const e = environmentAt({...plan, tp});
    const [weights, cache, activations, reserve, usable, prefixes] = memory(e, w.batch, w.isl + w.osl);
    if (weights + cache + activations + reserve + prefixes > usable) continue;
    if (w.load === "batch") return tp;
    if (linkFault(model, gpu, {...plan, tp}) !== null) return tp; // for its caller to refuse
    const takes = ANSWERS[`capacity_${name(e)}`](e, w)[0];
    if (chosen === 0 || takes > best * (1 + GAIN_OF_WIDER)) {
      chosen = tp;
      best = takes;
    }
    if (w.load === "request_rate" ? takes > w.amount : takes >= w.amount) {
      return tp;
    }
  }
  return chosen;
}

/** The widest degree of a node that divides a model, where none fits. */
export function widestTp(model, gpu, plan) {
  const possible = possibleTp(model, widestOf(gpu, plan)).filter((tp) => (tp * plan.dp) % plan.ep === 0);
  return possible.at(-1) ?? 1;
}

/** Why the degrees beside an open tp are impossible; null if they are not. */
export function openFault(model, plan) {
  return degreesFault(model, {...plan, tp: 1});
}
