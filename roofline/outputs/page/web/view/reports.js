/** What follows an answer: its reasons and its charts, in steps of a few milliseconds. */

import {answer} from "../engine/answer.js";
import {details} from "../engine/details.js";
import {byId} from "./dom.js";
import {chartFrame} from "./frames.js";
import {alongFrontier, frontierChart} from "./frontier_chart.js";
import {alongLoad, alongPrompt, loadChart, promptChart} from "./latency_charts.js";
import {rooflineChart} from "./roofline_chart.js";
import {memoryChart, timeChart} from "./stack_charts.js";
import {caseText} from "./text.js";
import {showWhy} from "./why.js";

const UNITS_OF_LOADS = {concurrency: "users", request_rate: "requests/s", batch: "requests"};
const ONE_TOKEN = "An answer of one token has no TPOT, and a user sees no speed.";
const CHARTS = [frontierChart, loadChart, promptChart, rooflineChart, timeChart, memoryChart];

/** Frames of all charts by their id, in the order in which they stand. */
export function makeFrames() {
  return Object.fromEntries(CHARTS.map((chart) => [chart.id, chartFrame(chart)]));
}

/** Steps that explain an answer; `chosen` keeps which kernel was chosen. */
export function* explainSteps(contents, frames, present, chosen) {
  const {question, refusal} = present;
  const explained = details(contents, question);
  yield;
  showWhy(byId("why-body"), present, explained, chosen);
  yield;
  if (refusal) {
    frames.time.clear(refusal.message);
    frames.roofline.clear(refusal.message);
    return;
  }
  const hint = "The pass that computes a prompt, and a decode step.";
  frames.time.show({...explained, hint}, caseText(question));
  yield;
  frames.roofline.show(explained, caseText(question));
  yield;
}

/** Steps that compute and draw the charts along an input. */
export function* chartSteps(contents, frames, present, gpus, levels) {
  const {question, refusal} = present;
  const about = caseText(question);
  const show = (frame, series, more) => {
    if (series.every(({points}) => points.length === 0)) {
      frame.clear(refusal?.message ?? (question.osl > 1 ? "There is no answer along this axis." : ONE_TOKEN));
    } else {
      frame.show({question, levels, ...more, series}, about);
    }
  };
  const names = question.osl > 1 ? ["ttft", "tpot"] : ["ttft"];
  const onLoad = {names, now: question.amount, unit: UNITS_OF_LOADS[question.load]};
  yield* alongLoad(contents, question, gpus, (series) => show(frames.load, series, onLoad));
  yield;
  const onPrompt = {names: ["ttft"], now: question.isl, unit: "prompt tokens"};
  yield* alongPrompt(contents, question, gpus, (series) => show(frames.prompt, series, onPrompt));
  yield;
  const answers = gpus.map((gpu) => answer(contents, {...question, gpu})).filter(({memory}) => memory);
  if (answers.length === 0) {
    frames.memory.clear(refusal?.message ?? "There is no answer.");
  } else {
    frames.memory.show({answers}, about);
  }
  yield;
  const current = refusal ? null : {x: present.tokSUser, y: present.outputTokSGpu};
  yield* alongFrontier(contents, question, gpus, (series) => show(frames.frontier, series, {current}));
  yield;
}
