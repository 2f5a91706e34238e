/** Figures, which may be missing, and words as the page shows them. */

import {TIMES, fitting, quantity, rounded} from "../engine/figures.js";

const SECONDS = TIMES.map(([prefix, size]) => [`${prefix.replace("u", "µ")}s`, size]);
const NOTHING = "-";

/** Names of latencies, in the order in which they are shown. */
export const LATENCIES = {ttft: "TTFT", tpot: "TPOT", e2el: "E2EL", itl: "ITL"};

/** Levels at which a latency is limited, by their word. */
export const LEVELS = {mean: null, p50: 50, p90: 90, p95: 95, p99: 99};

/** What a basis means. */
export const BASES = {
  calibrated: "kernels of this very GPU were timed",
  inherited: "kernels of another GPU of its generation were timed",
  served: "runs of servers scale its passes, hardly any kernel was timed",
  generic: "no kernel of its generation was timed",
  ideal: "the hardware limit, which no GPU reaches",
};

/** What a verdict says. */
export const VERDICTS = {
  pass: "Meets the limits",
  "pass?": "Probably meets the limits",
  "fail?": "Probably misses the limits",
  fail: "Misses the limits",
};

/** Whether a value is a number that can be shown. */
export function isFigure(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** Three significant digits. */
export function threeDigits(value) {
  return isFigure(value) ? rounded(value) : NOTHING;
}

/** A whole number, its digits in groups. */
export function grouped(value) {
  return isFigure(value) ? value.toLocaleString("en-US", {maximumFractionDigits: 0}) : NOTHING;
}

/** A time: 44.8 ms. */
export function secondsText(value) {
  if (!isFigure(value)) {
    return NOTHING;
  }
  const [unit, size] = fitting(value, SECONDS);
  return `${threeDigits(value / size)} ${unit}`;
}

/** Figure and unit of a time, apart. */
export function secondsParts(value) {
  const [figure, unit = ""] = secondsText(value).split(" ");
  return {figure, unit};
}

/** Both ends of a range of times, in one unit: 15.3-20 ms. */
export function secondsRange(low, high) {
  if (!isFigure(low) || !isFigure(high)) {
    return NOTHING;
  }
  const [unit, size] = fitting(high, SECONDS);
  return `${threeDigits(low / size)}-${threeDigits(high / size)} ${unit}`;
}

/** An SI value with a decimal prefix: 3.35 TB/s. */
export function quantityText(value, unit) {
  return isFigure(value) ? quantity(value, unit) : NOTHING;
}

/** A number of parameters or tokens in few characters: 8.03 B, 131 k. */
export function countText(value) {
  if (!isFigure(value)) {
    return NOTHING;
  }
  const [word, size] = fitting(value, [
    ["T", 1e12],
    ["B", 1e9],
    ["M", 1e6],
    ["k", 1e3],
    ["", 1],
  ]);
  return word === "" ? threeDigits(value) : `${threeDigits(value / size)} ${word}`;
}

/** A share in percent: 71 %. */
export function percentText(share) {
  return isFigure(share) ? `${Number((100 * share).toPrecision(share < 0.1 ? 2 : 3))} %` : NOTHING;
}

/** An amount of USD: 2,913 or 3.99. */
export function usdText(value) {
  return isFigure(value) && Math.abs(value) >= 1000 ? grouped(value) : threeDigits(value);
}

/** A count with its noun: 1 GPU, 4 GPUs. */
export function counted(count, one, many = `${one}s`) {
  return `${threeDigits(count)} ${count === 1 ? one : many}`;
}

/** Words of a load: 32 users. */
export function loadText(question) {
  if (question.load === "batch") {
    return question.amount === 1 ? "1 request at a time" : `a burst of ${threeDigits(question.amount)} requests`;
  }
  const one = question.load === "concurrency" ? "user" : "request/s";
  return counted(question.amount, one, question.load === "concurrency" ? "users" : "requests/s");
}

/** Words of a plan: tp 8, pp 2. */
export function planText(plan) {
  const names = Object.entries(plan).filter(([name, degree]) => name !== "replicas" && (name === "tp" || degree > 1));
  const replicas = plan.replicas > 1 ? [counted(plan.replicas, "replica")] : [];
  return [...names.map(([name, degree]) => `${name} ${degree}`), ...replicas].join(", ");
}

/** One sentence of a case: llama-3.1-8b on h100-sxm, 2000 tokens in, 200 out, 32 users. */
export function caseText(question) {
  return `${question.model} on ${question.gpu}, ${question.isl} tokens in, ${question.osl} out, ${loadText(question)}`;
}

/** Word of a level: p95, or mean. */
export function levelText(level) {
  return level ? `p${level}` : "mean";
}

/** A latency of an answer at a level: value and both ends of its range, or null. */
export function latencyAt(answer, name, level) {
  const latency = answer.latencies?.[name];
  if (!latency) {
    return null;
  }
  if (level) {
    return latency[`p${level}`] ?? null;
  }
  return isFigure(latency.mean) ? {value: latency.mean, low: latency.low, high: latency.high} : null;
}
