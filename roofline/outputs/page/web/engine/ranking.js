// Many answers: GPUs in order, a curve over one input, the frontier of speed and throughput.

import { answer } from "./answer.js";

const MOST_AMOUNT = 4096; // of a load that is varied
const FASTER = 2 ** 0.5;
const WIDEST = 16; // tensor-parallel degree on the frontier

/** Answers of all GPUs: those that meet the SLO first, then by TTFT, then the refused ones. */
export function ranked(contents, question, gpus = contents.gpus.map(({ name }) => name)) {
  const own = question.ownGpu?.name;
  const answers = gpus.map((gpu) => answer(contents, gpu === own ? { ...question, gpu } : { ...question, gpu, ownGpu: null }));
  const place = ({ refusal, verdict }) => (refusal ? 2 : ["pass", "pass?"].includes(verdict?.word) ? 0 : 1);
  const time = ({ latencies }) => latencies?.ttft.mean ?? Infinity;
  return answers.sort((one, other) => place(one) - place(other) || compared(time(one), time(other)));
}

function compared(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Answers where one input takes several values. */
export function curve(contents, question, name, values) {
  return values.map((value) => answer(contents, { ...question, [name]: value }));
}

/** Points of speed per user against throughput per GPU, over loads and tensor-parallel degrees. */
export function frontier(contents, question) {
  const degrees = question.tp === null ? [1, 2, 4, 8, WIDEST] : [question.tp];
  const load = question.load === "request_rate" ? "concurrency" : question.load;
  const points = [];
  for (const tp of degrees) {
    for (let amount = 1; amount <= MOST_AMOUNT; amount *= FASTER * FASTER) {
      const found = answer(contents, { ...question, load, amount: amount * question.replicas, tp });
      if (found.refusal) {
        if (amount === 1 || found.refusal.code !== "NoSteadyState") break;
        continue;
      }
      if (found.tokSUser === null) break;
      points.push({ answer: found, x: found.tokSUser, y: found.outputTokSGpu, label: `tp ${tp}, ${amount}`, onFrontier: true });
      if (found.waiting > found.concurrency / 2) break; // all slots taken
    }
  }
  for (const point of points) {
    point.onFrontier = !points.some((other) => other !== point && other.x >= point.x && other.y > point.y);
  }
  return points.sort((one, other) => one.x - other.x);
}
