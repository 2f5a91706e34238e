// Verdicts: whether the limits of a question are met, how sure that is, and why.

import {WORDS, limited_by, verdict_timed, verdict_untimed} from "./programs.js";
import {isRough} from "./case.js";
import {SHORT} from "./refusals.js";

const METRICS = ["ttft", "tpot", "e2el"];

/** The verdict on the limits of a question. */
export function verdictOf(question, {w, gpu}, latencies, figures, {unchecked}) {
  const limited = METRICS.filter((metric) => question.slo[metric]);
  if (!limited.length) return null;
  const isAtLimit = question.basis === "ideal";
  const shares = METRICS.map((metric) => {
    const limit = question.slo[metric];
    const applies = Boolean(limit) && (metric !== "tpot" || w.osl > 1);
    if (!applies) return [0, 0, 0, 0, 0];
    const all = latencies[metric];
    const of = limit.level === null ? {value: all.mean, low: all.low, high: all.high} : all[`p${limit.level}`];
    if (!of || of.value === null) return [NaN, NaN, NaN, 0, 1];
    const low = of.low ?? of.value;
    const high = of.high ?? Infinity;
    const least = isRough(gpu) && !isAtLimit ? figures[`ideal_${metric}`] : 0;
    return [...limited_by(limit.limit, of.value, low, high, all.mean, least), 1];
  });
  const judge = isRough(gpu) && !isAtLimit ? verdict_untimed : verdict_timed;
  const [word, said, bound] = judge(...shares, unchecked.length ? 1 : 0);
  const binding = bound === null ? null : keyOfLimit(question.slo, question.slo[bound] ? bound : limited[0]);
  let reason = said || null;
  if (said === `${WORDS.outside}: ${WORDS.outside}`) reason = `${WORDS.outside}: ${unchecked[0]}`;
  else if (said === WORDS.inRange && isAtLimit) reason = WORDS.atLimit;
  else if (said === WORDS.notTimed && gpu.basis === "served") reason = WORDS.notKernels;
  else if (said && said.endsWith("exceeds its limit")) {
    const isMean = w.load !== "batch" || w.hit !== null;
    reason = `${keyText(question.slo, bound, isMean)} exceeds its limit`;
  }
  return {word, reason, binding};
}

/** What misses every limit because there is no time. */
export function verdictWithoutTimes(question, code) {
  if (!["DoesNotFit", "Overloaded", "NoSteadyState"].includes(code)) return null;
  const limited = METRICS.filter((metric) => question.slo[metric]);
  if (!limited.length) return null;
  const applies = limited.some((metric) => metric !== "tpot" || question.osl > 1);
  return {word: "fail", reason: SHORT[code], binding: applies ? keyOfLimit(question.slo, limited[0]) : null};
}

/** Key of a limit, such as `ttft_p95`. */
function keyOfLimit(slo, metric) {
  const {level} = slo[metric];
  return level === null ? metric : `${metric}_p${level}`;
}

/** A limit as people read it. */
function keyText(slo, metric, isMean) {
  const {level} = slo[metric];
  if (level !== null) return `${metric.toUpperCase()} p${level}`;
  return isMean ? `mean ${metric.toUpperCase()}` : metric.toUpperCase();
}
