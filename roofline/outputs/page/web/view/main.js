/** The page: what was typed goes in, the answer comes out first, and the rest when the browser has time. */

import {answer, commandLine, details, openContents, pythonLine} from "../engine/answer.js";
import {ranked} from "../engine/ranking.js";
import {addressOf, textsOf} from "./address.js";
import {showAnswer, spokenAnswer} from "./answer_panel.js";
import {bindForm, showForm} from "./controls.js";
import {button, byId, debounced, make, setAttributes, stepper} from "./dom.js";
import {bindCopy, codeLine, saveCsv} from "./export.js";
import {defaultTexts, questionOf} from "./fields.js";
import {chartFrame} from "./frames.js";
import {alongFrontier, alongLoad, alongPrompt, frontierChart, loadChart, promptChart} from "./load_charts.js";
import {rankingRows, rankingTable} from "./ranking_table.js";
import {memoryChart, rooflineChart, timeChart} from "./step_charts.js";
import {BASES, LEVELS, caseText, grouped} from "./text.js";
import {showWhy} from "./why.js";

const PAUSE = 120;
const SPEAKING_PAUSE = 700;
const ADDRESS_PAUSE = 300;
const MARKS = {calibrated: "*", inherited: "+", generic: "?", ideal: ""};

const contents = openContents(JSON.parse(byId("contents").textContent));
const first = defaultTexts(contents);
const page = {texts: {...first}, good: null, levels: {}, compare: [], answer: null, chosen: {}, address: ""};
const frames = Object.fromEntries(
  [
    ["frontier", frontierChart],
    ["load", loadChart],
    ["prompt", promptChart],
    ["time", timeChart],
    ["roofline", rooflineChart],
    ["memory", memoryChart],
  ].map(([name, chart]) => [name, chartFrame(chart)]),
);
const runSteps = stepper();

/** Says something to people who listen. */
function say(text) {
  byId("live").textContent = text;
}

const sayLater = debounced(say, SPEAKING_PAUSE);

/** Levels at which latencies are shown. */
function levelsOf(texts) {
  return {
    ttft: LEVELS[texts.ttftLevel] ?? null,
    tpot: LEVELS[texts.tpotLevel] ?? null,
    e2el: LEVELS[texts.e2elLevel] ?? null,
  };
}

/** Writes the question into the address, so that a copied link asks it again. */
const writeAddress = debounced(() => {
  page.address = addressOf(page.texts, first);
  history.replaceState(null, "", `#${page.address}`);
}, ADDRESS_PAUSE);

/** What follows the answer: ranking, charts, and why, a few milliseconds at a time. */
const showRest = debounced(() => {
  const {good: question, answer: present} = page;
  const gpus = [question.gpu, ...page.compare];
  runSteps([rankingSteps(question), explainSteps(question, present), chartSteps(question, present, gpus)]);
}, PAUSE);

/** Steps that rank the GPUs. */
function* rankingSteps(question) {
  const names = [...(question.ownGpu ? [question.ownGpu.name] : []), ...contents.gpus.map(({name}) => name)];
  ranking.update({
    answers: ranked(contents, question, names),
    levels: page.levels,
    current: question.gpu,
    compared: page.compare,
  });
  byId("ranking-body").classList.remove("old");
  yield;
}

/** Steps that explain the answer. */
function* explainSteps(question, present) {
  const explained = details(contents, question);
  yield;
  showWhy(byId("why-body"), present, explained, page.chosen);
  yield;
  if (present.refusal) {
    frames.time.clear(present.refusal.message);
    frames.roofline.clear(present.refusal.message);
  } else {
    frames.time.show(
      {...explained, unit: "Shares of the pass that answers one prompt, and of a decode step."},
      caseText(question),
    );
    yield;
    frames.roofline.show(explained, caseText(question));
  }
  yield;
}

/** Steps that compute and draw the charts along an input. */
function* chartSteps(question, present, gpus) {
  const about = caseText(question);
  const data = {question, levels: page.levels};
  const shown = (frame, series, more) => {
    if (series.every(({points}) => points.length === 0)) {
      frame.clear("No GPU has an answer here.");
    } else {
      frame.show({...data, ...more, series}, about);
    }
  };
  const unit = {concurrency: "users", request_rate: "requests/s", batch: "requests"}[question.load];
  yield* alongLoad(contents, question, gpus, (series) =>
    shown(frames.load, series, {names: ["ttft", "tpot"], now: question.amount, unit}),
  );
  yield;
  yield* alongPrompt(contents, question, gpus, (series) =>
    shown(frames.prompt, series, {names: ["ttft"], now: question.isl, unit: "prompt tokens"}),
  );
  yield;
  const current = present.refusal ? null : {x: present.tokSUser, y: present.outputTokSGpu};
  yield* alongFrontier(contents, question, gpus, (series) => shown(frames.frontier, series, {current}));
  yield;
  const answers = gpus.map((gpu) => answer(contents, {...question, gpu})).filter(({memory}) => memory);
  if (answers.length === 0) {
    frames.memory.clear(present.refusal?.message ?? "Not known.");
  } else {
    frames.memory.show({answers}, about);
  }
  yield;
}

/** Answers what the texts ask; where one is wrong, the last good answer stays. */
function ask() {
  const asked = questionOf(contents, page.texts);
  page.compare = asked.compare;
  showForm(contents, page.texts, asked);
  const isStale = asked.question === null;
  byId("answer").classList.toggle("stale", isStale);
  byId("stale").hidden = !isStale;
  if (isStale) {
    const count = Object.keys(asked.errors).length;
    byId("stale").textContent =
      page.good === null
        ? "Correct the marked field to get an answer."
        : `${count === 1 ? "One field needs" : `${count} fields need`} correction. This is still the answer for ${caseText(page.good)}.`;
    sayLater(Object.values(asked.errors)[0]);
    return;
  }
  const {question} = asked;
  page.good = question;
  page.levels = levelsOf(page.texts);
  page.answer = answer(contents, question);
  showAnswer(byId("answer-body"), page.answer, page.levels);
  lines.command.show(commandLine(question));
  lines.python.show(pythonLine(question));
  document.title = `${question.model} on ${question.gpu} - roofline`;
  byId("ranking-body").classList.add("old");
  sayLater(spokenAnswer(page.answer, page.levels));
  writeAddress();
  showRest();
}

/** Takes over texts that changed, and answers again. */
function change(texts) {
  Object.assign(page.texts, texts);
  if (texts.gpu !== undefined) {
    const names = page.texts.compare.split(",").filter((name) => name && name !== texts.gpu);
    page.texts.compare = names.join(",");
  }
  ask();
}

/** Asks what the address asks. */
function readAddress() {
  const {texts, unknown} = textsOf(location.hash, first);
  const notice = byId("notice");
  notice.hidden = unknown.length === 0;
  notice.textContent =
    unknown.length === 0 ? "" : `The address holds what this page does not know: ${unknown.join(", ")}.`;
  page.texts = texts;
  ask();
}

/** Theme of the page: that of the system, or the one chosen, which is kept where the browser allows it. */
function bindTheme() {
  const choice = byId("theme");
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    choice.value = theme;
  };
  try {
    const kept = localStorage.getItem("roofline-theme");
    show(["auto", "light", "dark"].includes(kept) ? kept : "auto");
  } catch {
    show("auto");
  }
  choice.addEventListener("change", () => {
    show(choice.value);
    try {
      localStorage.setItem("roofline-theme", choice.value);
    } catch {
      say("The theme is not kept: the browser refused.");
    }
  });
}

/** Saves the answer as one row of CSV. */
function saveAnswer() {
  if (page.answer) {
    const {columns, rows} = rankingRows([page.answer], page.levels);
    const {model, isl, osl, prefix, load, amount} = page.good;
    saveCsv(
      "roofline-answer",
      ["model", "isl", "osl", "prefix", "load", "amount", ...columns],
      [[model, isl, osl, prefix, load, amount, ...rows[0]]],
    );
  }
}

/** Saves what all charts draw as one CSV: chart, series and values in long form. */
function saveCharts() {
  const long = Object.entries(frames).flatMap(([name, frame]) => {
    const data = frame.rows();
    return data === null
      ? []
      : data.values.flatMap((row, index) =>
          row.map((value, column) => [name, index + 1, data.columns[column].key, value]),
        );
  });
  saveCsv("roofline-charts", ["chart", "row", "key", "value"], long);
}

/** Lines and files that take the case elsewhere. */
function makeElsewhere() {
  const command = codeLine("In a shell", say);
  const python = codeLine("In Python, after import roofline as rl", say);
  byId("elsewhere-body").append(
    command.box,
    python.box,
    make("p", {class: "tools"}, button("Answer as CSV", saveAnswer), button("All charts as CSV", saveCharts)),
  );
  return {command, python};
}

/** Says what the page is and what its marks mean. */
function makeAbout() {
  byId("version").textContent = `${contents.version}, built ${contents.built}`;
  byId("about").textContent =
    `${grouped(contents.models.length)} models and ${grouped(contents.gpus.length)} GPUs. Times are closed-form estimates ` +
    "with 80 % ranges: the true value lies inside in four of five cases. This file asks no server for anything.";
  byId("basis-legend").append(
    ...Object.entries(BASES).flatMap(([basis, words]) => [
      make("dt", {}, MARKS[basis] ? `${MARKS[basis]} ${basis}` : basis),
      make("dd", {}, words),
    ]),
  );
}

bindTheme();
const lines = makeElsewhere();
const ranking = rankingTable(byId("ranking-body"), {
  pick: (gpu) => change({gpu}),
  compare: (gpus) => change({compare: gpus.join(",")}),
});
byId("charts-body").append(...Object.values(frames).map(({figure}) => figure));
makeAbout();
bindForm(contents, {texts: () => page.texts, change, reset: () => change({...first})});
bindCopy(byId("copy-link"), () => `${location.href.split("#")[0]}#${addressOf(page.texts, first)}`, say);
byId("ranking-filter").addEventListener("input", ({target}) => ranking.update({filter: target.value}));
byId("ranking-csv").addEventListener("click", () => {
  const {columns, rows} = rankingRows(ranking.answers(), page.levels);
  saveCsv("roofline-ranking", columns, rows);
});
setAttributes(byId("ranking-csv"), {"aria-label": "CSV: GPUs"});
window.addEventListener("hashchange", () => {
  if (location.hash !== `#${page.address}`) {
    readAddress();
  }
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("answer").focus();
});
readAddress();
