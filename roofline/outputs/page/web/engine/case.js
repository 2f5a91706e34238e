// The case that a question states: its records, formats, plan and numbers, and its means under a load.

import {ANSWERS, SERVED} from "./programs.js";
import {formatsOf, recordOf} from "./contents.js";
import {environmentOf} from "./environment.js";
import {ownGpu} from "./own_gpu.js";
import {linkFault, openFault, openTp, planFault, widestTp} from "./plans.js";
import {numbersFault} from "./question.js";
import {Refused} from "./refusals.js";

/**
 * The case of a question.
 * @param changedGpu a record in place of that of the question's GPU, for small changes of it.
 * @returns {object} question, records, formats, plan, `w`: lengths and load, `e`: numbers, price [USD/h];
 *   `environmentAt`: numbers at another plan, and in another preset of formats.
 */
export function caseOf(contents, question, changedGpu = null) {
  const model = recordOf(contents.modelOf, question.model);
  const own = question.ownGpu?.name === question.gpu ? question.ownGpu : null;
  const gpu = changedGpu ?? (own ? ownGpu(contents, own) : recordOf(contents.gpuOf, question.gpu));
  const engine = recordOf(contents.engineOf, question.engine);
  for (const [kind, found, name] of [
    ["model", model, question.model],
    ["GPU", gpu, question.gpu],
    ["engine", engine, question.engine],
  ]) {
    if (!found) throw new Refused("UnknownName", `unknown ${kind} ${JSON.stringify(name)}`);
  }
  if (!contents.raw.presets.includes(question.quantization)) {
    throw new Refused("UnknownName", `unknown quantization preset ${JSON.stringify(question.quantization)}`);
  }
  const formats = formatsOf(contents, model, gpu, question.quantization, kvOf(contents, question, model));
  if (formats.refusal) throw new Refused("UnsupportedPrecision", formats.refusal);
  const {replicas, network, basis} = question;
  const price = question.price ?? own?.price ?? gpu.price?.typical ?? null;
  const parts = {model, gpu, engine, formats, replicas, price, network, basis, own, isChanged: changedGpu !== null};
  const environmentAt = (plan, chosen = formats) => environmentOf(contents, {...parts, plan, formats: chosen});
  const w = workloadOf(question);
  const plan = planOf(question, parts, w, environmentAt);
  return {contents, question, model, gpu, engine, formats, plan, w, e: environmentAt(plan), price, environmentAt};
}

/** Whether next to no kernel of a GPU's generation was timed. */
export function isRough(gpu) {
  return gpu.basis === "generic" || gpu.basis === "served";
}

/** The plan that a question states, or the one for it. */
function planOf(question, {model, gpu, engine}, w, environmentAt) {
  const {tp, pp, ep, dp} = question;
  const plan = {tp, pp, ep, dp};
  refuse(tp === null ? null : planFault(model, plan));
  refuse(numbersFault(question));
  if (tp === null) {
    refuse(openFault(model, plan));
    plan.tp = openTp(model, gpu, plan, w, (e) => structureName(e, w, schedulerOf(question, engine)), environmentAt);
    plan.tp ||= widestTp(model, gpu, plan);
    refuse(planFault(model, plan));
  }
  refuse(linkFault(model, gpu, plan));
  return plan;
}

/** Refuses a fault, if there is one. */
function refuse(fault) {
  if (fault !== null) throw new Refused("BadInput", fault);
}

/** The KV cache format that a question states; null for that of the quantization. */
function kvOf(contents, question, model) {
  if (question.kv === "as quantization") return null;
  const format = question.kv === "auto" ? model.native : question.kv;
  if (!contents.kvFormats.includes(format)) {
    throw new Refused("UnknownName", `unknown KV cache format ${JSON.stringify(question.kv)}`);
  }
  return format;
}

/** Lengths and load as the printed formulas read them. */
function workloadOf({isl, osl, prefix, cacheHit, load, amount}) {
  const isHit = cacheHit === null || cacheHit === 1;
  const cached = cacheHit === 0 ? 0 : prefix;
  const hit = isHit || cached === 0 ? null : cacheHit;
  return {isl, osl, prefix: cached, hit, load, amount, batch: load === "batch" ? amount : 1};
}

/** The order in which an engine takes prompts and answers; at the hardware limit, answers come first. */
function schedulerOf(question, engine) {
  return question.basis === "ideal" ? "decode first" : engine.scheduler;
}

/** End of the names of the programs of a case. */
export function structureName(e, w, scheduler) {
  const mixed = w.hit === null ? "" : "_mixed";
  if (w.load === "batch") return `batch_decode_dp${mixed}`;
  const order = scheduler === "decode first" ? "decode" : "prompts";
  return `${w.load}_${order}_dp${e.dp === 1 ? "1" : ""}${mixed}`;
}

/** End of the names of the programs that answer a case. */
export function nameOf({e, w, question, engine}) {
  return structureName(e, w, schedulerOf(question, engine));
}

/** Means of a case under its load; null for a burst. */
export function meansOf(asked) {
  const {e, w} = asked;
  if (w.load === "batch") return null;
  const found = ANSWERS[`served_${nameOf(asked)}`](e, w);
  const means = Object.fromEntries(SERVED.map((each, at) => [each, found[at]]));
  means.is_stable = found[SERVED.length];
  means.state = found.slice(SERVED.length + 1);
  return means;
}
