// Many answers: GPUs in order, a curve over one input, the frontier of speed and throughput.

import {answer} from "./answer.js";

const MOST_AMOUNT = 4096; // of a load that is varied
const DIGITS = 9; // in which two times differ
const WIDEST = 16; // tensor-parallel degree on the frontier

/** Answers of all GPUs: those that meet the SLO first, then by TTFT, then the refused ones. */
export function ranked(contents, question, gpus = contents.gpus.map(({name}) => name)) {
  return inOrder(gpus.map((gpu) => answer(contents, {...question, gpu})));
}

/** Answers of GPUs in the order of `ranked`. */
export function inOrder(answers) {
  const place = ({refusal, verdict}) => (refusal ? 2 : ["pass", "pass?"].includes(verdict?.word) ? 0 : 1);
  const time = ({latencies}) => Number((latencies?.ttft.mean ?? Infinity).toPrecision(DIGITS));
  return [...answers].sort((one, other) => place(one) - place(other) || compared(time(one), time(other)));
}

function compared(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Answers where one input takes several values. */
export function curve(contents, question, name, values) {
  return values.map((value) => answer(contents, {...question, [name]: value}));
}

/** Points of speed per user against throughput per GPU, over loads and tensor-parallel degrees. */
export function frontier(contents, question) {
  return marked(frontierDegrees(question).flatMap((tp) => pointsAt(contents, question, tp)));
}

/** Tensor-parallel degrees of a frontier. */
export function frontierDegrees({tp}) {
  return tp === null ? [1, 2, 4, 8, WIDEST] : [tp];
}

/** Points of a frontier at one tensor-parallel degree. */
export function pointsAt(contents, question, tp) {
  const load = question.load === "request_rate" ? "concurrency" : question.load;
  const points = [];
  for (let amount = 1; amount <= MOST_AMOUNT; amount *= 2) {
    const found = answer(contents, {...question, load, amount: amount * question.replicas, tp});
    if (found.refusal) {
      if (amount === 1 || found.refusal.code !== "NoSteadyState") break;
      continue;
    }
    if (found.tokSUser === null) break;
    points.push({answer: found, x: found.tokSUser, y: found.outputTokSGpu});
    if (found.waiting > found.concurrency / 2) break; // all slots taken
  }
  return points;
}

/** Points, the slowest user first, each with whether no other one beats it. */
export function marked(points) {
  const isBeaten = (point) => points.some((other) => other !== point && other.x >= point.x && other.y > point.y);
  return points.map((point) => ({...point, onFrontier: !isBeaten(point)})).sort((one, other) => one.x - other.x);
}
