// The answer to a question: what `predict` answers, from the same formulas.

import {
  ANSWERS, BEYOND, FIGURES, LABELS, OUTSIDE, PERCENTILES, REGIONS, SERVED, WORDS, beyond_mixed, beyond_plain,
  ends_of_percentile, held_by_burst, held_under_load, knees_affine, knees_any, limited_by, verdict_timed,
  verdict_untimed,
} from "./programs.js";
import { formatsOf, recordOf } from "./contents.js";
import { environment } from "./environment.js";
import { boundsOf, largest_batch, memory, passesOf } from "./passes.js";
import { linkFault, openFault, openTp, planFault, widestTp } from "./plans.js";
import { numbersFault } from "./question.js";

const MOST_ENVIRONMENTS = 600;
const HOURS_OF_MONTH = 730;
const BOUND_WORDS = ["compute", "memory", "exponentials", "link", "latency"];
const METRICS = ["ttft", "tpot", "e2el"];
const BASIS_MARKS = { calibrated: "*", inherited: "+", generic: "?", ideal: "" };
const NO_TIME = { mean: null, low: null, high: null, p50: null, p90: null, p95: null, p99: null };

/** A refusal, with the code and the short words of the error that Python raises. */
class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const SHORT = {
  DoesNotFit: "does not fit",
  Overloaded: "overloaded",
  NoSteadyState: "no steady state was found",
  UnsupportedPrecision: "unsupported",
};

/** The answer to a question; a refusal where there is none. */
export function answer(contents, question, changedGpu = null) {
  try {
    return answered(contents, question, caseOf(contents, question, changedGpu));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return refusedAnswer(contents, question, error);
  }
}

function refusedAnswer(contents, question, { code, message, stack: _, ...facts }) {
  const gpu = recordOf(contents.gpuOf, question.gpu);
  return {
    question, refusal: { code, short: SHORT[code] ?? "refused", message }, plan: null, gpus: null,
    basis: gpu?.basis ?? null, mark: BASIS_MARKS[gpu?.basis] ?? "", basisDetail: "", latencies: null,
    verdict: verdictWithoutTimes(question, code), domain: null, notes: [], memory: null, bound: null, knees: null, ...facts,
  };
}

/** What misses every limit because there is no time. */
function verdictWithoutTimes(question, code) {
  if (!["DoesNotFit", "Overloaded", "NoSteadyState"].includes(code)) return null;
  const limited = METRICS.filter((metric) => question.slo[metric]);
  if (!limited.length) return null;
  const applies = limited.some((metric) => metric !== "tpot" || question.osl > 1);
  return { word: "fail", reason: SHORT[code], binding: applies ? keyOfLimit(question.slo, limited[0]) : null };
}

/** The deployment, lengths and load of a question. */
export function caseOf(contents, question, changedGpu = null) {
  const model = recordOf(contents.modelOf, question.model);
  const gpu = changedGpu ?? (question.ownGpu ? ownGpu(contents, question.ownGpu) : recordOf(contents.gpuOf, question.gpu));
  const engine = recordOf(contents.engineOf, question.engine);
  for (const [kind, found, name] of [["model", model, question.model], ["GPU", gpu, question.gpu], ["engine", engine, question.engine]]) {
    if (!found) throw new Refused("UnknownName", `unknown ${kind} ${JSON.stringify(name)}`);
  }
  if (!contents.raw.presets.includes(question.quantization)) {
    throw new Refused("UnknownName", `unknown quantization preset ${JSON.stringify(question.quantization)}`);
  }
  const formats = formatsOf(contents, model, gpu, question.quantization, kvOf(contents, question, model));
  if (formats.refusal) throw new Refused("UnsupportedPrecision", formats.refusal);
  const plan = { tp: question.tp, pp: question.pp, ep: question.ep, dp: question.dp };
  let fault = plan.tp === null ? null : planFault(contents, model, plan);
  fault ??= numbersFault(question) ?? (plan.tp === null ? openFault(contents, model, plan) : null);
  if (fault !== null) throw new Refused("BadInput", fault);
  const w = workloadOf(question);
  const environmentAt = (at) => environmentOf(contents, { model, gpu, engine, formats, question, changedGpu }, at);
  if (plan.tp === null) {
    plan.tp = openTp(model, gpu, plan, w, (e) => structureName(e, w, question, engine), environmentAt);
    plan.tp ||= widestTp(model, gpu, plan);
    fault = planFault(contents, model, plan);
    if (fault !== null) throw new Refused("BadInput", fault);
  }
  fault = linkFault(model, gpu, plan);
  if (fault !== null) throw new Refused("BadInput", fault);
  const e = environmentAt(plan);
  const price = question.price ?? question.ownGpu?.price ?? gpu.price?.typical ?? null;
  return { contents, question, model, gpu, engine, formats, plan, w, e, price };
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

/** A planner's own GPU, as one of a generation that was never timed. */
function ownGpu(contents, own) {
  const like = contents.raw.own;
  const { peak, bandwidth, memory: size, link } = own;
  for (const [name, value] of Object.entries({ peak, bandwidth, memory: size })) {
    if (!(value > 0 && Number.isFinite(value))) throw new Refused("BadInput", `${name} of ${own.name} must be above 0`);
  }
  const isAlone = !(link > 0);
  const numbers = { ...like.numbers, bandwidth, memory: size };
  Object.assign(numbers, isAlone ? { domain: 1, host_domain: 1 } : { link, peer: link, host_link: link });
  const settings = ["max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization"];
  const runs = like.runs.map((run, place) => [
    ...run.slice(0, 3),
    ...settings.map((name, at) => settingOf(contents.raw.engines[place].byGpu[name], own, run[3 + at])),
  ]);
  return {
    ...like, runs, name: own.name, peaks: { bf16: peak }, bandwidth, memory: size, numbers, isAlone,
    node: isAlone ? 1 : like.node, price: null,
  };
}

/** The default of an engine's setting on a planner's own GPU. */
function settingOf(rules, own, otherwise) {
  const holds = ([, least, others]) => own.memory >= least && !others.some((part) => own.name.includes(part));
  return rules ? rules.find(holds)[0] : otherwise;
}

/** Numbers of a deployment, kept. */
function environmentOf(contents, { model, gpu, engine, formats, question, changedGpu }, plan) {
  const key = [
    model.name, gpu.name, engine.name, question.quantization, question.kv, Object.values(plan).join(), question.replicas,
    question.price, question.network, question.basis, JSON.stringify(question.ownGpu),
  ].join("|");
  let found = changedGpu ? undefined : contents.environments.get(key);
  if (found === undefined) {
    if (contents.environments.size >= MOST_ENVIRONMENTS) contents.environments.clear();
    const price = question.price ?? question.ownGpu?.price ?? gpu.price?.typical ?? null;
    const { basis, replicas, network } = question;
    found = environment(contents, { model, gpu, engine, formats, plan, replicas, price, network, basis });
    if (!changedGpu) contents.environments.set(key, found);
  }
  return found;
}

/** Lengths and load as the printed formulas read them. */
function workloadOf({ isl, osl, prefix, cacheHit, load, amount }) {
  const isHit = cacheHit === null || cacheHit === 1;
  const cached = cacheHit === 0 ? 0 : prefix;
  const hit = isHit || cached === 0 ? null : cacheHit;
  return { isl, osl, prefix: cached, hit, load, amount, batch: load === "batch" ? amount : 1 };
}

/** End of the names of the programs of a case. */
function structureName(e, w, question, engine) {
  const mixed = w.hit === null ? "" : "_mixed";
  if (w.load === "batch") return `batch_decode_dp${mixed}`;
  const order = question.basis === "ideal" || engine.scheduler === "decode first" ? "decode" : "prompts";
  return `${w.load}_${order}_dp${e.dp === 1 ? "1" : ""}${mixed}`;
}

/** The answer of a case. */
function answered(contents, question, asked) {
  const { model, gpu, engine, plan, w, e, price } = asked;
  const name = structureName(e, w, question, engine);
  const means = w.load === "batch" ? null : servedOf(e, w, name);
  const [batch, length] = means ? held_under_load(e, w, means) : held_by_burst(e, w);
  const held = memoryOf(e, batch, length);
  if (!held.fits) throw doesNotFit(asked, held);
  if (means && !means.is_stable) throw overload(asked, means);
  const m = [held.weights, held.kvCache, held.activations, held.reserve, held.usable, held.prefixes];
  const figures = Object.fromEntries(ANSWERS[`figures_${name}`](e, w, means, m).map((value, at) => [FIGURES[at], value]));
  const latencies = latenciesOf(question, w, figures, ANSWERS[`percentiles_${name}`](e, w, means, m), isRanged(e));
  const said = domainOf(asked, name, means);
  const judged = verdictOf(question, asked, latencies, figures, said);
  const { prefill, decode } = passesOf(e, w, means);
  const month = figures.usd_per_hour * HOURS_OF_MONTH;
  return {
    question, refusal: null, plan: { ...plan, replicas: question.replicas },
    gpus: plan.tp * plan.pp * plan.dp * question.replicas,
    basis: basisOf(question, gpu), mark: BASIS_MARKS[basisOf(question, gpu)], basisDetail: detailOf(contents, question, asked),
    latencies, verdict: judged, domain: said.domain, notes: notesOf(asked, said, [prefill, decode]),
    outputTokS: figures.output_tok_s, outputTokSGpu: figures.output_tok_s_gpu,
    tokSUser: w.osl > 1 ? 1 / figures.tpot : null,
    requestRate: known(figures.request_rate), maxRequestRate: known(figures.max_request_rate),
    concurrency: known(figures.concurrency), util: known(figures.util), queue: known(figures.queue),
    running: known(figures.running), waiting: known(figures.waiting), batch: figures.decode_batch,
    usdPerHour: price === null ? null : figures.usd_per_hour, usdPerMonth: price === null ? null : month,
    usdPerMOutputTok: price === null ? null : figures.usd_per_m_output_tok,
    memory: { ...held, largestBatch: largest_batch(e, w.isl + w.osl)[0] },
    bound: { prefill: boundOf(prefill), decode: w.osl > 1 ? boundOf(decode) : null },
    knees: w.load === "batch" ? kneesOf(model, e, w) : null,
  };
}

function known(value) {
  return Number.isNaN(value) || value === undefined ? null : value;
}

function isRanged(e) {
  return !e.is_ideal;
}

/** Means of a case under its load; null for a burst. */
export function meansOf({ e, w, question, engine }) {
  return w.load === "batch" ? null : servedOf(e, w, structureName(e, w, question, engine));
}

/** Means under a load. */
function servedOf(e, w, name) {
  const found = ANSWERS[`served_${name}`](e, w);
  const means = Object.fromEntries(SERVED.map((each, at) => [each, found[at]]));
  means.is_stable = found[SERVED.length];
  means.state = found.slice(SERVED.length + 1);
  return means;
}

function memoryOf(e, batch, length) {
  const [weights, kvCache, activations, reserve, usable, prefixes] = memory(e, batch, length);
  const used = weights + kvCache + activations + reserve + prefixes;
  return { weights, kvCache, activations, reserve, usable, prefixes, used, fits: used <= usable, batch, length };
}

function doesNotFit({ model, gpu, plan, w }, held) {
  const size = (nbytes) => `${(nbytes / 1e9).toFixed(1)} GB`;
  return Object.assign(
    new Refused(
      "DoesNotFit",
      `${model.name} does not fit ${gpu.name} at tp ${plan.tp}, pp ${plan.pp}, batch ${w.batch}, ${w.isl + w.osl} tokens: ` +
        `weights ${size(held.weights)} + KV cache ${size(held.kvCache)} + activations ${size(held.activations)} + ` +
        `reserve ${size(held.reserve)} exceed the usable ${size(held.usable)} per GPU by ${size(held.used - held.usable)}; ` +
        "try more GPUs, smaller formats, or shorter lengths",
    ),
    { memory: { ...held, largestBatch: 0 } },
  );
}

function overload({ model, gpu, plan, w }, means) {
  const what = `${model.name} on ${plan.tp * plan.pp * plan.dp}x ${gpu.name}`;
  const asked = `${w.load} = ${w.amount}`;
  if (w.load === "request_rate" && w.amount >= means.max_request_rate) {
    const most = Number(means.max_request_rate.toPrecision(3));
    return Object.assign(
      new Refused("Overloaded", `${what} answers at most ${most} requests/s of this kind; ${asked} exceeds that: lower it, or add GPUs`),
      { maxRequestRate: means.max_request_rate },
    );
  }
  return new Refused("NoSteadyState", `${what}: ${SHORT.NoSteadyState} for ${asked}; ask for a lower load, or add GPUs`);
}

/** Means with their ranges, and percentiles with theirs; null where not known. */
function latenciesOf(question, w, figures, percentiles, isWithRanges) {
  const found = {};
  for (const metric of ["ttft", "tpot", "itl", "e2el"]) {
    const mean = known(figures[metric]);
    const isNone = mean === null || (w.osl <= 1 && (metric === "tpot" || metric === "itl"));
    if (isNone) {
      found[metric] = { ...NO_TIME };
      continue;
    }
    const [low, high] = isWithRanges ? [figures[`${metric}_low`], figures[`${metric}_high`]] : [null, null];
    found[metric] = { mean, low, high };
    PERCENTILES.forEach(([name, level], at) => {
      if (name !== metric) return;
      const value = known(percentiles[at]);
      const ends = value === null || low === null || metric === "itl" ? [null, null] : ends_of_percentile(low, high, mean, value);
      found[metric][`p${level}`] = value === null ? null : { value, low: ends[0], high: ends[1] };
    });
  }
  return found;
}

/** Whether a case is inside what was checked, with the reasons where it is not. */
function domainOf({ model, e, w, question }, name, means) {
  const reasons = [];
  let domain = null;
  if (means) {
    const [region, ...fails] = ANSWERS[`outside_${name}`](e, w, means);
    reasons.push(...OUTSIDE[name].filter((_, at) => fails[at]));
    const errors = REGIONS[region] ? `; ${REGIONS[region]}` : "";
    const where = reasons.length ? `outside the validated range (${reasons.join(", ")})` : "inside the validated range";
    const left = reasons.length ? "; percentiles that contradict their mean are left out; compare with `simulate`" : "";
    domain = { inside: !reasons.length, reasons: [...reasons], note: `under load: ${where}${errors}${left}`, region };
  }
  const beyond = (w.hit === null ? beyond_plain : beyond_mixed)(e, w);
  const limits = BEYOND.map((text) => text.replace("{context}", model.maxContext).replace("{model}", model.name));
  const isAtLimit = question.basis === "ideal";
  const exceeded = limits.filter((_, at) => beyond[at] && (!isAtLimit || at === limits.length - 1));
  return { domain, unchecked: isAtLimit ? [] : [...reasons, ...exceeded], exceeded };
}

/** Key of a limit, such as `ttft_p95`. */
function keyOfLimit(slo, metric) {
  const { level } = slo[metric];
  return level === null ? metric : `${metric}_p${level}`;
}

/** The verdict on the limits of a question. */
function verdictOf(question, { w, gpu }, latencies, figures, { unchecked }) {
  const limited = METRICS.filter((metric) => question.slo[metric]);
  if (!limited.length) return null;
  const isAtLimit = question.basis === "ideal";
  const shares = METRICS.map((metric) => {
    const limit = question.slo[metric];
    const applies = Boolean(limit) && (metric !== "tpot" || w.osl > 1);
    if (!applies) return [0, 0, 0, 0, 0];
    const all = latencies[metric];
    const of = limit.level === null ? { value: all.mean, low: all.low, high: all.high } : all[`p${limit.level}`];
    if (!of || of.value === null) return [NaN, NaN, NaN, 0, 1];
    const low = of.low ?? of.value;
    const high = of.high ?? Infinity;
    const least = gpu.basis === "generic" && !isAtLimit ? figures[`ideal_${metric}`] : 0;
    return [...limited_by(limit.limit, of.value, low, high, all.mean, least), 1];
  });
  const judge = gpu.basis === "generic" && !isAtLimit ? verdict_untimed : verdict_timed;
  const [word, said, bound] = judge(...shares, unchecked.length ? 1 : 0);
  const binding = bound === null ? null : keyOfLimit(question.slo, question.slo[bound] ? bound : limited[0]);
  let reason = said || null;
  if (said === `${WORDS.outside}: ${WORDS.outside}`) reason = `${WORDS.outside}: ${unchecked[0]}`;
  else if (said === WORDS.inRange && isAtLimit) reason = WORDS.atLimit;
  else if (said && said.endsWith("exceeds its limit")) {
    const isMean = w.load !== "batch" || w.hit !== null;
    reason = `${keyText(question.slo, bound, isMean)} exceeds its limit`;
  }
  return { word, reason, binding };
}

/** A limit as people read it. */
function keyText(slo, metric, isMean) {
  const { level } = slo[metric];
  if (level !== null) return `${metric.toUpperCase()} p${level}`;
  return isMean ? `mean ${metric.toUpperCase()}` : metric.toUpperCase();
}

function basisOf(question, gpu) {
  return question.basis === "ideal" ? "ideal" : gpu.basis;
}

/** The basis with its evidence. */
function detailOf(contents, question, { gpu, engine }) {
  if (question.basis === "ideal") return "ideal: hardware limit";
  const run = gpu.runs[contents.engines.indexOf(engine.name)];
  return contents.raw.details[run[2]];
}

/** What bounds most of the time of a pass. */
function boundOf(pass) {
  const times = boundsOf(pass);
  return BOUND_WORDS[times.indexOf(Math.max(...times))];
}

/** The knees of a burst. */
function kneesOf(model, e, w) {
  const [ridge, half, most] = (!model.moe && e.dp === 1 ? knees_affine : knees_any)(e, w);
  return { ridge, half, memory: most, slo: null };
}

/** Notes on assumptions, stand-ins and limits. */
function notesOf({ model, gpu, engine, formats, plan, w, question }, said, passes) {
  const notes = [...model.cautions, ...gpu.cautions, ...formats.notes];
  const isOpen = question.tp === null && w.load !== "batch";
  if (isOpen) notes.push(`tp = ${plan.tp}: chosen for the load, and for the SLO where the number of GPUs is given`);
  if (question.basis !== "ideal") {
    if (gpu.basis === "generic") {
      notes.push(`${gpu.name}: no kernels of its generation were timed; constants are medians of others, the range is wide`);
    }
    if (gpu.numbers.exp_rate === null) {
      notes.push(`${gpu.name}: no special-function rate known; softmax exponentials count as free`);
    }
    notes.push(...assumedOf(gpu, passes));
  }
  notes.push(...said.exceeded, ...linkNotes(model, gpu, plan, question));
  if (said.domain) notes.push(said.domain.note);
  if (question.cacheHit !== null) {
    notes.push("memory of the cached prefixes is not counted; give cache_size to take it from the batch");
  }
  if (engine.tunings.length && question.basis !== "ideal") notes.push(...versionNotes(engine, gpu, passes));
  return [...new Set(notes)];
}

/** Kernels with assumed constants. */
function assumedOf(gpu, passes) {
  if (gpu.basis === "generic") return [];
  const names = new Set();
  for (const pass of passes) {
    for (let at = 0; at < pass.kernels.length; at += 4) {
      const { roof } = pass.kernels[at + 1];
      if (roof && !roof.isMeasured && !LABELS[roof.kind][2]) names.add(`${roof.dtype} ${roof.kind}`);
    }
  }
  if (!names.size) return [];
  return [`assumed, not measured on ${gpu.generation}: ${[...names].join(", ")} (see its calibration file)`];
}

/** Notes on links that leave the scale-up domain, or whose speed is uncertain. */
function linkNotes(model, gpu, { tp, pp, dp }, question) {
  const notes = [];
  const ranks = Math.max(tp, model.moe ? tp * dp : 1);
  const isBridged = gpu.hasBridge && ranks > gpu.numbers.domain;
  if (question.basis !== "ideal" && (isBridged || (gpu.linkKind === "pcie" && tp * dp > 1))) {
    const beyond = isBridged ? ` beyond the ${gpu.numbers.domain}-GPU ${gpu.linkKind} bridge` : "";
    notes.push(`${gpu.name}: collectives${beyond} run over PCIe; their time depends on the server and is uncertain`);
  }
  if (ranks > gpu.node) {
    const why = gpu.isAlone
      ? "use the network, as it has no scale-up link"
      : `exceed its ${gpu.node}-GPU ${gpu.nodeLink} domain and use the network`;
    notes.push(`${gpu.name}: ${ranks} ranks ${why}`);
  }
  const crossings = Math.min(pp - 1, Math.floor(((pp - 1) * tp * dp) / gpu.node));
  if (crossings) notes.push(`${gpu.name}: ${crossings} of ${pp - 1} pipeline hand-overs cross the network`);
  return notes;
}

/** Notes on kernels that this version of an engine runs more slowly than later ones. */
function versionNotes(engine, gpu, passes) {
  const used = new Set();
  for (const pass of passes) {
    for (let at = 0; at < pass.kernels.length; at += 4) {
      const { roof } = pass.kernels[at + 1];
      if (roof) used.add(`${roof.kind} ${roof.dtype}`).add(`${roof.kind} null`);
    }
  }
  return engine.tunings
    .filter(([kind, dtype, generation]) => used.has(`${kind} ${dtype}`) && [null, gpu.generation].includes(generation))
    .map(([, , , note]) => `${engine.name}: ${note}`);
}
