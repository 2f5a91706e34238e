/** The page: what was typed goes in, the answer comes out first, and the rest when the browser has time. */

import {answer} from "../engine/answer.js";
import {openContents} from "../engine/contents.js";
import {ownFile, ownSpecification} from "../engine/own_gpu.js";
import {commandLine, pythonLine} from "../engine/question.js";
import {inOrder} from "../engine/ranking.js";
import {addressOf, textsOf} from "./address.js";
import {showAnswer, spokenAnswer} from "./answer_panel.js";
import {bindForm, showForm} from "./controls.js";
import {button, byId, debounced, make, setAttributes, stepper} from "./dom.js";
import {bindCopy, codeLine, saveCsv, saveText} from "./export.js";
import {defaultTexts, questionOf} from "./fields.js";
import {rankingRows, rankingTable} from "./ranking_table.js";
import {chartSteps, explainSteps, makeFrames} from "./reports.js";
import {BASES, LEVELS, caseText, grouped} from "./text.js";

const PAUSE = 120;
const SPEAKING_PAUSE = 700;
const ADDRESS_PAUSE = 300;
const FOLLOWING = ["ranking", "charts", "why"]; // what is busy until it follows the answer
const LEGEND_MARKS = {calibrated: "*", inherited: "+", served: "#", generic: "?", ideal: ""};

const contents = openContents(JSON.parse(byId("contents").textContent));
const first = defaultTexts(contents);
const page = {
  texts: {...first},
  good: null, // the last question without a mistake, and its answer
  answer: null,
  levels: {},
  compare: [],
  chosen: {},
  address: "",
  isStale: false,
};
const frames = makeFrames();
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
  if (!page.isStale) {
    page.address = addressOf(page.texts, first);
    history.replaceState(null, "", `#${page.address}`);
  }
}, ADDRESS_PAUSE);

/** What follows the answer, once typing has paused: ranking, reasons and charts. */
const showRest = debounced(() => {
  const {answer: present, compare, levels} = page;
  const gpus = [present.question.gpu, ...compare];
  runSteps([
    rankingSteps(present.question),
    explainSteps(contents, frames, present, page.chosen),
    chartSteps(contents, frames, present, gpus, levels),
    endSteps(),
  ]);
}, PAUSE);

/** Steps that rank the GPUs. */
function* rankingSteps(question) {
  const names = [...(question.ownGpu ? [question.ownGpu.name] : []), ...contents.gpus.map(({name}) => name)];
  const answers = [];
  for (const gpu of names) {
    answers.push(answer(contents, {...question, gpu}));
    yield;
  }
  ranking.update({answers: inOrder(answers), levels: page.levels, current: question.gpu, compared: page.compare});
  setAttributes(byId("ranking"), {"aria-busy": null});
  yield;
}

/** The last step: nothing more follows. */
function* endSteps() {
  for (const place of FOLLOWING) {
    setAttributes(byId(place), {"aria-busy": null});
  }
  yield;
}

/** Says that the answer shown is not that of what is typed. */
function showStale(errors) {
  const count = Object.keys(errors).length;
  const wrong = count === 1 ? "One field needs correction." : `${count} fields need correction.`;
  byId("answer").classList.toggle("stale", page.isStale);
  byId("stale").hidden = !page.isStale;
  byId("stale").textContent = page.isStale ? `${wrong} This is still the answer for ${caseText(page.good)}.` : "";
}

/** Answers what the texts ask; where one is wrong, the last good answer stays. */
function ask() {
  const asked = questionOf(contents, page.texts);
  page.compare = asked.compare;
  showForm(contents, page.texts, asked);
  page.isStale = asked.question === null;
  showStale(asked.errors);
  if (page.isStale) {
    sayLater(Object.values(asked.errors)[0]);
    return;
  }
  const {question} = asked;
  page.good = question;
  page.levels = levelsOf(page.texts);
  page.answer = answer(contents, question);
  showAnswer(byId("answer-body"), page.answer, page.levels);
  lines.command.show(commandLine(question, page.answer.plan));
  lines.python.show(pythonLine(question, page.answer.plan));
  lines.own.box.hidden = question.ownGpu === null;
  lines.own.show(question.ownGpu === null ? "" : ownSpecification(contents, question.ownGpu));
  document.title = `${question.model} on ${question.gpu} - roofline`;
  for (const place of FOLLOWING) {
    setAttributes(byId(place), {"aria-busy": "true"});
  }
  sayLater(spokenAnswer(page.answer, page.levels));
  writeAddress();
  showRest();
}

/** Takes over texts that changed, and answers again. */
function change(texts) {
  Object.assign(page.texts, texts);
  if (texts.gpu !== undefined) {
    page.texts.compare = page.texts.compare.filter((name) => name !== texts.gpu);
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
  if (page.good === null && questionOf(contents, texts).question === null) {
    ask();
  }
  page.texts = texts;
  showTheme();
  ask();
}

/** Shows the theme that the address or the choice names; that of the system for any other word. */
function showTheme() {
  const theme = ["light", "dark"].includes(page.texts.theme) ? page.texts.theme : "auto";
  page.texts.theme = theme;
  document.documentElement.dataset.theme = theme;
  byId("theme").value = theme;
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
  const save = button("Save", () => saveText(ownFile(page.good.ownGpu), ownSpecification(contents, page.good.ownGpu)));
  const own = codeLine("The file of your own GPU, which both lines read", say, save);
  byId("elsewhere-body").append(
    command.box,
    python.box,
    own.box,
    make("p", {class: "tools"}, button("Answer as CSV", saveAnswer), button("All charts as CSV", saveCharts)),
  );
  return {command, python, own};
}

/** Says what the page is and what its marks mean. */
function makeAbout() {
  byId("version").textContent = `${contents.version}, built ${contents.built}`;
  const catalog = `${grouped(contents.models.length)} models and ${grouped(contents.gpus.length)} GPUs`;
  byId("about").textContent =
    `${catalog}. Times are closed-form estimates with 80 % ranges: the true value lies inside in four of five ` +
    "cases. This file asks no server for anything.";
  byId("basis-legend").append(
    ...Object.entries(BASES).map(([basis, words]) => {
      const mark = LEGEND_MARKS[basis] ? `${LEGEND_MARKS[basis]} ${basis}` : basis;
      return make("div", {}, make("dt", {}, mark), make("dd", {}, words));
    }),
  );
}

byId("theme").addEventListener("change", ({target}) => {
  page.texts.theme = target.value;
  showTheme();
  writeAddress();
});
const lines = makeElsewhere();
const ranking = rankingTable(byId("ranking-body"), {
  pick: (gpu) => change({gpu}),
  compare: (gpus) => change({compare: gpus}),
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
