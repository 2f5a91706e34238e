/** The answer to the case: what people look at first. */

import {drawn, make, plainTable, scrollBox} from "./dom.js";
import {
  BASES,
  LATENCIES,
  VERDICTS,
  counted,
  isFigure,
  latencyAt,
  levelText,
  loadText,
  percentText,
  planText,
  quantityText,
  secondsParts,
  secondsRange,
  secondsText,
  threeDigits,
  usdText,
} from "./text.js";

const SIGNS = {
  pass: "M4 10l4 4 8-9",
  "pass?": "M4 10l4 4 8-9",
  "fail?": "M5 5l10 10M15 5L5 15",
  fail: "M5 5l10 10M15 5L5 15",
};
const REFUSALS = {
  DoesNotFit: "It does not fit",
  Overloaded: "Overloaded",
  NoSteadyState: "No steady state",
  UnsupportedPrecision: "Not a format of this GPU",
  BadInput: "Not a case",
  UnknownName: "Not in the catalog",
};
const FAR = 4;
const BOUND_TEXTS = {
  compute: "compute-bound",
  memory: "memory-bound",
  latency: "latency-bound",
  link: "link-bound",
  exponentials: "bound by exponentials",
};

/** Word for what a pass waits for. */
export function boundText(bound) {
  return BOUND_TEXTS[bound] ?? (bound ? `bound by ${bound}` : "-");
}

/** A sign of a verdict: a tick or a cross, in a circle that is dashed where the verdict is not certain. */
function verdictSign(word) {
  return drawn(
    "svg",
    {class: "sign", viewBox: "0 0 20 20", width: 20, height: 20, "aria-hidden": "true"},
    drawn("circle", {cx: 10, cy: 10, r: 9, class: word.endsWith("?") ? "dashed" : null}),
    drawn("path", {d: SIGNS[word], transform: "translate(4 4) scale(.6)"}),
  );
}

/** The verdict in words, with its reason. */
function verdictBlock(answer) {
  const {verdict} = answer;
  if (!verdict) {
    return make("p", {class: "verdict none"}, "No limit is set: type one to get a verdict.");
  }
  if (!verdict.word) {
    return make("p", {class: "verdict none"}, make("strong", {}, "No verdict"), `: ${verdict.reason ?? "not known"}`);
  }
  const kind = verdict.word.startsWith("pass") ? "good" : "bad";
  const reason = verdict.reason ? make("span", {class: "reason"}, verdict.reason) : null;
  return make(
    "p",
    {class: `verdict ${kind}`},
    verdictSign(verdict.word),
    make("strong", {}, VERDICTS[verdict.word]),
    make("span", {class: "word"}, verdict.word),
    reason,
  );
}

/** A bar with the range of a latency, its value and its limit. */
function rangeBar(latency, limit) {
  const {value} = latency;
  const [low, high] = [latency.low ?? value, latency.high ?? value];
  const width = 240;
  const isNear = isFigure(limit) && limit < FAR * high;
  const most = isNear ? 1.08 * Math.max(high, limit) : 1.3 * high;
  const at = (seconds) => (seconds / most) * width;
  const marks = [
    drawn("rect", {class: "rail", x: 0, y: 10, width, height: 6, rx: 3}),
    drawn("rect", {class: "range", x: at(low), y: 8, width: Math.max(at(high) - at(low), 1), height: 10, rx: 2}),
    drawn("rect", {class: "value", x: at(value) - 1.5, y: 5, width: 3, height: 16, rx: 1}),
  ];
  if (isNear) {
    marks.push(drawn("path", {class: "limit-line", d: `M${at(limit)} 2V24`}));
  }
  return drawn("svg", {class: "range-bar", viewBox: `0 0 ${width} 26`, "aria-hidden": "true"}, ...marks);
}

/** Why a latency has no figure. */
function missingText({osl}, name) {
  return name === "tpot" && osl <= 1 ? "An answer of one token has none." : "Not known for this load.";
}

/** A latency as a large figure with its range and limit. */
function latencyBlock(answer, levels, name) {
  const level = levels[name];
  const latency = latencyAt(answer, name, level);
  const limit = answer.question.slo[name]?.limit ?? null;
  const title = make("h3", {}, LATENCIES[name], make("span", {class: "level"}, levelText(level)));
  if (latency === null || !isFigure(latency.value)) {
    return make("div", {class: "figure"}, title, make("p", {class: "hint"}, missingText(answer.question, name)));
  }
  const {figure, unit} = secondsParts(latency.value);
  const isMissed = limit !== null && latency.value > limit;
  const isRanged = isFigure(latency.low) && isFigure(latency.high);
  const words = [isRanged ? `80 % range ${secondsRange(latency.low, latency.high)}` : "no range"];
  if (limit !== null) {
    words.push(`limit ${secondsText(limit)}`);
  }
  return make(
    "div",
    {class: isMissed ? "figure missed" : "figure"},
    title,
    make("p", {class: "large"}, figure, make("span", {class: "unit"}, ` ${unit}`)),
    rangeBar(latency, limit),
    ...words.map((line) => make("p", {class: "hint"}, line)),
  );
}

/** A term and what it is. */
function fact(term, text, hint = null) {
  return make("div", {}, make("dt", {}, term), make("dd", {}, text, hint && make("span", {class: "hint"}, hint)));
}

/** Facts of a load: its use of the GPUs, and its queue. */
function loadFacts({util, maxRequestRate, queue}) {
  const lines = [];
  if (isFigure(util)) {
    lines.push(fact("Utilization", percentText(util), `of at most ${threeDigits(maxRequestRate)} requests/s`));
  }
  if (isFigure(queue)) {
    lines.push(fact("Queue", secondsText(queue), "of the mean TTFT"));
  }
  return lines;
}

/** Facts of the answer beside its latencies. */
function facts(answer) {
  const {question} = answer;
  const price = answer.usdPerHour === null ? null : `${usdText(answer.usdPerHour)} USD/h`;
  const lines = [
    fact("GPUs", `${answer.gpus} x ${question.gpu}`, planText(answer.plan)),
    fact("Rent", isFigure(answer.usdPerMonth) ? `${usdText(answer.usdPerMonth)} USD/month` : "no price known", price),
    fact("Output", `${threeDigits(answer.outputTokS)} tok/s`, `${threeDigits(answer.outputTokSGpu)} per GPU`),
  ];
  if (isFigure(answer.tokSUser)) {
    lines.push(fact("Speed per user", `${threeDigits(answer.tokSUser)} tok/s`));
  }
  if (isFigure(answer.usdPerMOutputTok)) {
    lines.push(fact("Cost", `${usdText(answer.usdPerMOutputTok)} USD`, "per million output tokens at this load"));
  }
  lines.push(...loadFacts(answer));
  if (answer.memory) {
    const {used, usable} = answer.memory;
    lines.push(fact("Memory", quantityText(used, "B"), `of ${quantityText(usable, "B")} per GPU`));
  }
  return make("dl", {class: "facts"}, ...lines);
}

/** The basis of the figures, with its mark and in words. */
function basisBlock(answer) {
  const evidence = answer.basis === "ideal" ? "" : answer.basisDetail.replace(`${answer.basis}: `, "");
  const detail = evidence === "" ? "" : ` (${evidence})`;
  return make(
    "p",
    {class: "basis"},
    make("span", {class: "badge"}, answer.mark ? `${answer.mark} ${answer.basis}` : answer.basis),
    ` ${BASES[answer.basis] ?? ""}${detail}`,
  );
}

/** Whether the load lies where the equations were checked: what the note says first, and then the rest. */
function domainBlock({domain}) {
  if (!domain?.note) {
    return null;
  }
  const [state, ...rest] = domain.note.split("; ");
  return make(
    "p",
    {class: domain.inside ? "domain" : "domain outside"},
    make("strong", {}, state.charAt(0).toUpperCase() + state.slice(1)),
    rest.length > 0 ? make("span", {class: "hint"}, `; ${rest.join("; ")}`) : null,
  );
}

/** Notes on the answer, apart from that on the load. */
function notesBlock({notes, domain}) {
  const others = notes.filter((note) => note !== domain?.note);
  return others.length === 0 ? null : make("ul", {class: "notes"}, ...others.map((note) => make("li", {}, note)));
}

/** Mean and percentiles of all latencies as a table; none where all are the mean, as in a burst. */
function percentiles(answer) {
  const {ttft} = answer.latencies;
  if (ttft.p50?.value === ttft.mean && ttft.p99?.value === ttft.mean) {
    return null;
  }
  const columns = ["", "mean", "p50", "p90", "p95", "p99"].map((title, index) => ({title, numeric: index > 0}));
  const rows = Object.keys(LATENCIES)
    .filter((name) => answer.latencies[name])
    .map((name) => {
      const times = [null, 50, 90, 95, 99].map((level) => secondsText(latencyAt(answer, name, level)?.value));
      return [LATENCIES[name]].concat(times);
    });
  return make(
    "details",
    {class: "percentiles"},
    make("summary", {}, "All percentiles"),
    scrollBox("Percentiles", plainTable("Mean and percentiles of the latencies", columns, rows)),
  );
}

/** What is shown where there is no answer: why, and what to do. */
function refusalBlock({refusal}) {
  return make(
    "div",
    {class: "refusal"},
    make(
      "p",
      {class: "verdict bad"},
      verdictSign("fail"),
      make("strong", {}, REFUSALS[refusal.code] ?? "No answer"),
      make("span", {class: "word"}, refusal.code),
    ),
    make("p", {}, refusal.message),
  );
}

/** Shows an answer; `levels` are those of the form, for latencies without a limit. */
export function showAnswer(place, answer, levels) {
  if (answer.refusal) {
    place.replaceChildren(refusalBlock(answer));
    return;
  }
  const shown = ["ttft", "tpot", ...(answer.question.slo.e2el ? ["e2el"] : [])];
  place.replaceChildren(
    ...[
      verdictBlock(answer),
      make("div", {class: "figures"}, ...shown.map((name) => latencyBlock(answer, levels, name))),
      facts(answer),
      basisBlock(answer),
      domainBlock(answer),
      notesBlock(answer),
      percentiles(answer),
    ].filter((block) => block !== null),
  );
}

/** The answer as one sentence, for people who listen. */
export function spokenAnswer(answer, levels) {
  const {question, refusal, verdict} = answer;
  if (refusal) {
    return `${question.model} on ${question.gpu}: ${refusal.code}. ${refusal.message}`;
  }
  const times = ["ttft", "tpot"].map((name) => {
    const level = levels[name];
    return `${LATENCIES[name]} ${levelText(level)} ${secondsText(latencyAt(answer, name, level)?.value)}`;
  });
  const judged = verdict?.word ? `: ${VERDICTS[verdict.word]}` : "";
  return (
    `${question.model} on ${counted(answer.gpus, question.gpu, question.gpu)}, ${loadText(question)}: ` +
    `${times.join(", ")}${judged}.`
  );
}
