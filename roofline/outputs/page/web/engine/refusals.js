// Refusals: why a question has no answer, and what to do, in the words of the errors that Python raises.

import {formatsOf} from "./contents.js";
import {rounded} from "./figures.js";
import {largest_batch, memory} from "./passes.js";
import {deeperPlan, smallestTp} from "./plans.js";

const LONGEST_CONTEXT = 1e9; // tokens that are tried
const FEWER_BITS = ["fp8", "int4"]; // presets that are suggested, in this order

/** Short words for a refusal, by its code. */
export const SHORT = {
  DoesNotFit: "does not fit",
  Overloaded: "overloaded",
  NoSteadyState: "no steady state was found",
  UnsupportedPrecision: "unsupported",
};

/**
 * A refusal, with the code of the error that Python raises.
 * @param words the message, or a function that finds it, where that takes longer than an answer.
 */
export class Refused extends Error {
  constructor(code, words, facts = {}) {
    super(code);
    this.code = code;
    this.words = words;
    this.facts = facts;
  }

  /** Code, short words and message. */
  get refusal() {
    const {code, words} = this;
    let message = typeof words === "function" ? null : words;
    return {
      code,
      short: SHORT[code] ?? "refused",
      get message() {
        message ??= words();
        return message;
      },
    };
  }
}

/** Memory of the fullest GPU where so many sequences are so long [B], and whether it fits. */
export function memoryOf(e, batch, length) {
  const [weights, kvCache, activations, reserve, usable, prefixes] = memory(e, batch, length);
  const used = weights + kvCache + activations + reserve + prefixes;
  return {weights, kvCache, activations, reserve, usable, prefixes, used, fits: used <= usable, batch, length};
}

/** The refusal of a case that does not fit, with the shortfall and what would fit. */
export function doesNotFit(asked) {
  const {model, gpu, plan, w, e} = asked;
  const held = memoryOf(e, w.batch, w.isl + w.osl);
  const size = (nbytes) => `${(nbytes / 1e9).toFixed(1)} GB`;
  const message = () =>
    `${model.name} does not fit ${gpu.name} at tp ${plan.tp}, pp ${plan.pp}, batch ${w.batch}, ${held.length} tokens: ` +
    `weights ${size(held.weights)} + KV cache ${size(held.kvCache)} + activations ${size(held.activations)} + ` +
    `reserve ${size(held.reserve)} exceed the usable ${size(held.usable)} per GPU by ${size(held.used - held.usable)}; ` +
    `try ${remediesOf(asked, held).join(", or ")}`;
  return new Refused("DoesNotFit", message, {memory: {...held, largestBatch: 0}});
}

/** Nearest cases that fit: larger tp, smaller batch, shorter context, fewer bits, more stages. */
function remediesOf(asked, {batch, length}) {
  const {model, gpu, plan, e, environmentAt} = asked;
  const fits = (at) => memoryOf(at, batch, length).fits;
  const remedies = [];
  const tp = smallestTp(model, gpu, plan, (at) => fits(environmentAt(at)));
  if (tp !== null) remedies.push(`tp = ${tp}`);
  const most = largest_batch(e, length)[0];
  if (most >= 1 && most < batch) remedies.push(`batch = ${Math.floor(most)}`);
  if (!remedies.length && memoryOf(e, batch, 1).fits) remedies.push(`isl + osl = ${longestContext(e, batch)}`);
  for (const preset of FEWER_BITS) {
    const formats = lighterFormats(asked, preset);
    const fewer = formats && smallestTp(model, gpu, plan, (at) => fits(environmentAt(at, formats)));
    if (fewer && (tp === null || fewer < tp)) {
      remedies.push(`\`quantization\` ${preset} at tp = ${fewer}`);
      break;
    }
  }
  const deeper = tp === null ? deeperPlan(model, gpu, plan, (at) => fits(environmentAt(at))) : null;
  if (deeper) remedies.push(`tp = ${deeper.tp}, pp = ${deeper.pp}`);
  return remedies.length ? remedies : ["a smaller model, or a GPU with more memory"];
}

/** The formats of a preset; null where the GPU cannot run it, or it takes no fewer bits. */
function lighterFormats({contents, model, gpu, formats}, preset) {
  const chosen = formatsOf(contents, model, gpu, preset, null);
  const section = model.moe ? "experts" : "linear";
  return !chosen.refusal && chosen.schemes[section].nbytes < formats.schemes[section].nbytes ? chosen : null;
}

/** Longest sequences at which a batch fits [tokens]. */
function longestContext(e, batch) {
  let [fitting, most] = [1, LONGEST_CONTEXT + 1];
  while (most - fitting > 1) {
    const middle = Math.floor((fitting + most) / 2);
    if (memoryOf(e, batch, middle).fits) fitting = middle;
    else most = middle;
  }
  return fitting;
}

/** The refusal of a load that a deployment cannot take. */
export function overload({model, gpu, plan, w, question}, means) {
  const what = `${model.name} on ${plan.tp * plan.pp * plan.dp * question.replicas}x ${gpu.name}`;
  const users = `${w.amount} ${w.amount === 1 ? "user" : "users"}`;
  const load = w.load === "request_rate" ? `request_rate = ${rounded(w.amount)}` : users;
  if (w.load === "request_rate" && w.amount >= means.max_request_rate) {
    const most = `at most ${rounded(means.max_request_rate)} requests/s of this kind`;
    const message = `${what} answers ${most}; ${load} exceeds that: lower it, or add GPUs (\`num_gpus\`)`;
    return new Refused("Overloaded", message, {maxRequestRate: means.max_request_rate});
  }
  const message = `${what}: ${SHORT.NoSteadyState} for ${load}; ask for a lower load, or add GPUs (\`num_gpus\`)`;
  return new Refused("NoSteadyState", message);
}
