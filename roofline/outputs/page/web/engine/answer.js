// The answer to a question: what `predict` answers, from the same formulas.

import {
  ANSWERS,
  FIGURES,
  PERCENTILES,
  ends_of_percentile,
  held_by_burst,
  held_under_load,
  knees_affine,
  knees_any,
} from "./programs.js";
import {caseOf, meansOf, nameOf} from "./case.js";
import {recordOf} from "./contents.js";
import {domainOf} from "./domain.js";
import {notesOf} from "./notes.js";
import {boundsOf, largest_batch, passesOf} from "./passes.js";
import {Refused, doesNotFit, memoryOf, overload} from "./refusals.js";
import {verdictOf, verdictWithoutTimes} from "./verdicts.js";

const HOURS_OF_MONTH = 730;
const BOUND_WORDS = ["compute", "memory", "exponentials", "link", "latency"];
const BASIS_MARKS = {calibrated: "*", inherited: "+", served: "#", generic: "?", ideal: ""};
const NO_TIME = {mean: null, low: null, high: null, p50: null, p90: null, p95: null, p99: null};

/** The answer to a question; a refusal where there is none. */
export function answer(contents, question, changedGpu = null) {
  try {
    return answered(contents, question, caseOf(contents, question, changedGpu));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return refusedAnswer(contents, question, error);
  }
}

function refusedAnswer(contents, question, {code, refusal, facts}) {
  const gpu = recordOf(contents.gpuOf, question.gpu);
  return {
    question,
    refusal,
    plan: null,
    gpus: null,
    basis: gpu?.basis ?? null,
    mark: BASIS_MARKS[gpu?.basis] ?? "",
    basisDetail: "",
    latencies: null,
    verdict: verdictWithoutTimes(question, code),
    domain: null,
    notes: [],
    memory: null,
    bound: null,
    knees: null,
    ...facts,
  };
}

/** The answer of a case. */
function answered(contents, question, asked) {
  const {model, gpu, plan, w, e, price} = asked;
  const name = nameOf(asked);
  const means = meansOf(asked);
  const [batch, length] = means ? held_under_load(e, w, means) : held_by_burst(e, w);
  const held = memoryOf(e, batch, length);
  if (!held.fits) throw doesNotFit(asked);
  if (means && !means.is_stable) throw overload(asked, means);
  const m = [held.weights, held.kvCache, held.activations, held.reserve, held.usable, held.prefixes];
  const figures = Object.fromEntries(
    ANSWERS[`figures_${name}`](e, w, means, m).map((value, at) => [FIGURES[at], value]),
  );
  const latencies = latenciesOf(question, w, figures, ANSWERS[`percentiles_${name}`](e, w, means, m), !e.is_ideal);
  const said = domainOf(asked, means);
  const judged = verdictOf(question, asked, latencies, figures, said);
  const {prefill, decode} = passesOf(e, w, means);
  const month = figures.usd_per_hour * HOURS_OF_MONTH;
  return {
    question,
    refusal: null,
    plan: {...plan, replicas: question.replicas},
    gpus: plan.tp * plan.pp * plan.dp * question.replicas,
    basis: basisOf(question, gpu),
    mark: BASIS_MARKS[basisOf(question, gpu)],
    basisDetail: detailOf(contents, question, asked),
    latencies,
    verdict: judged,
    domain: said.domain,
    get notes() {
      // when they are read: they take longer than the rest
      return notesOf(asked, said, means, [prefill, decode]);
    },
    outputTokS: figures.output_tok_s,
    outputTokSGpu: figures.output_tok_s_gpu,
    tokSUser: w.osl > 1 ? 1 / figures.tpot : null,
    requestRate: known(figures.request_rate),
    maxRequestRate: known(figures.max_request_rate),
    concurrency: known(figures.concurrency),
    util: known(figures.util),
    queue: known(figures.queue),
    running: known(figures.running),
    waiting: known(figures.waiting),
    batch: figures.decode_batch,
    usdPerHour: price === null ? null : figures.usd_per_hour,
    usdPerMonth: price === null ? null : month,
    usdPerMOutputTok: price === null ? null : figures.usd_per_m_output_tok,
    memory: {...held, largestBatch: largest_batch(e, w.isl + w.osl)[0]},
    bound: {prefill: boundOf(prefill), decode: w.osl > 1 ? boundOf(decode) : null},
    knees: w.load === "batch" ? kneesOf(model, e, w) : null,
  };
}

function known(value) {
  return Number.isNaN(value) || value === undefined ? null : value;
}

/** Means with their ranges, and percentiles with theirs; null where not known. */
function latenciesOf(question, w, figures, percentiles, isWithRanges) {
  const found = {};
  for (const metric of ["ttft", "tpot", "itl", "e2el"]) {
    const mean = known(figures[metric]);
    const isNone = mean === null || (w.osl <= 1 && (metric === "tpot" || metric === "itl"));
    if (isNone) {
      found[metric] = {...NO_TIME};
      continue;
    }
    const [low, high] = isWithRanges ? [figures[`${metric}_low`], figures[`${metric}_high`]] : [null, null];
    found[metric] = {mean, low, high};
    PERCENTILES.forEach(([name, level], at) => {
      if (name !== metric) return;
      const value = known(percentiles[at]);
      const ends =
        value === null || low === null || metric === "itl" ? [null, null] : ends_of_percentile(low, high, mean, value);
      found[metric][`p${level}`] = value === null ? null : {value, low: ends[0], high: ends[1]};
    });
  }
  return found;
}

function basisOf(question, gpu) {
  return question.basis === "ideal" ? "ideal" : gpu.basis;
}

/** The basis with its evidence. */
function detailOf(contents, question, {gpu, engine}) {
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
  return {ridge, half, memory: most, slo: null};
}
