/** GPUs, ranked for the question: sorted, filtered, picked. */

import {button, make, scrollBox, setAttributes} from "./dom.js";
import {MOST_COMPARED} from "./fields.js";
import {isFigure, latencyAt, levelText, planText, secondsRange, secondsText, usdText} from "./text.js";

const COLUMNS = [
  ["gpu", "GPU", null],
  ["gpus", "GPUs", "number gpus"],
  ["ttft", "TTFT", "number"],
  ["tpot", "TPOT", "number"],
  ["verdict", "SLO", null],
  ["rent", "USD/month", "number"],
];
const VERDICT_WORDS = ["pass", "pass?", "fail?", "fail"];

/** A value to sort by; what is missing comes last. */
function sortValue(answer, column, levels) {
  if (column === "gpu") {
    return answer.question.gpu;
  }
  if (column === "verdict") {
    const place = VERDICT_WORDS.indexOf(answer.verdict?.word);
    return place < 0 ? VERDICT_WORDS.length : place;
  }
  const value = {
    gpus: answer.gpus,
    ttft: latencyAt(answer, "ttft", levels.ttft)?.value,
    tpot: latencyAt(answer, "tpot", levels.tpot)?.value,
    rent: answer.usdPerMonth,
  }[column];
  return isFigure(value) ? value : Infinity;
}

/** Answers in the order of a column; the order given where there is none. */
function sorted(answers, {column, isDown}, levels) {
  if (column === null) {
    return answers;
  }
  const keyed = answers.map((answer) => ({answer, key: sortValue(answer, column, levels)}));
  const ordered = d3.sort(keyed, (a, b) => {
    if ((a.answer.refusal === null) !== (b.answer.refusal === null)) {
      return a.answer.refusal === null ? -1 : 1;
    }
    if (a.key === b.key) {
      return 0;
    }
    if (a.key === Infinity || b.key === Infinity) {
      return a.key === Infinity ? 1 : -1;
    }
    return (a.key < b.key ? -1 : 1) * (isDown ? -1 : 1);
  });
  return ordered.map(({answer}) => answer);
}

/** A latency with its range below it. */
function latencyCell(answer, name, level) {
  const latency = latencyAt(answer, name, level);
  if (latency === null) {
    return make("td", {class: "number"}, "-");
  }
  return make(
    "td",
    {class: "number"},
    secondsText(latency.value),
    make("span", {class: "hint"}, secondsRange(latency.low, latency.high)),
  );
}

/** Columns and rows of the ranking as values, for CSV. */
export function rankingRows(answers, levels) {
  const columns = [
    "gpu",
    "basis",
    "gpus",
    "tp",
    "pp",
    "ep",
    "dp",
    "replicas",
    "ttft_level",
    "ttft_s",
    "ttft_low_s",
    "ttft_high_s",
    "tpot_level",
    "tpot_s",
    "tpot_low_s",
    "tpot_high_s",
    "verdict",
    "usd_per_month",
    "reason",
  ];
  const rows = answers.map((answer) => {
    const times = ["ttft", "tpot"].flatMap((name) => {
      const latency = answer.refusal ? null : latencyAt(answer, name, levels[name]);
      return [levelText(levels[name]), latency?.value, latency?.low, latency?.high];
    });
    const {tp, pp, ep, dp, replicas} = answer.refusal ? {} : answer.plan;
    return [
      answer.question.gpu,
      answer.basis,
      answer.refusal ? null : answer.gpus,
      tp,
      pp,
      ep,
      dp,
      replicas,
      ...times,
      answer.verdict?.word,
      answer.usdPerMonth,
      answer.refusal ? answer.refusal.message : answer.verdict?.reason,
    ];
  });
  return {columns, rows};
}

/** Cells of an answer beside the name of its GPU; the reason where there is none. */
function answerCells(answer, levels) {
  if (answer.refusal) {
    const reason = make("td", {colspan: 5, class: "reason"}, answer.refusal.short);
    reason.addEventListener("pointerenter", () => {
      reason.title = answer.refusal.message; // which takes longer to find than the answer
    });
    return [reason];
  }
  const word = answer.verdict?.word ?? "-";
  const look = {p: "good", f: "bad"}[word[0]] ?? null;
  return [
    make("td", {class: "number gpus", title: planText(answer.plan)}, String(answer.gpus)),
    latencyCell(answer, "ttft", levels.ttft),
    latencyCell(answer, "tpot", levels.tpot),
    make("td", {class: look}, word),
    make("td", {class: "number"}, isFigure(answer.usdPerMonth) ? usdText(answer.usdPerMonth) : "-"),
  ];
}

/** A row of the ranking; one row alone, the present one, can be reached by Tab, the others by arrow keys. */
function rankingRow(answer, {current, compared, levels}, {pick, compare}) {
  const {gpu} = answer.question;
  const isCurrent = gpu === current;
  const isCompared = compared.includes(gpu);
  const tick = make("input", {
    type: "checkbox",
    tabindex: -1,
    "aria-label": `Draw ${gpu} in the charts`,
    checked: isCompared || isCurrent,
    disabled: isCurrent || (compared.length >= MOST_COMPARED && !isCompared),
  });
  tick.addEventListener("change", () =>
    compare(tick.checked ? [...compared, gpu] : compared.filter((each) => each !== gpu)),
  );
  const row = make(
    "tr",
    {class: answer.refusal ? "refused" : null, "aria-current": isCurrent ? "true" : null},
    make("td", {class: "tick"}, tick),
    make(
      "th",
      {scope: "row"},
      make("button", {type: "button", class: "pick", tabindex: isCurrent ? 0 : -1}, gpu),
      make("span", {class: "mark", title: answer.basis}, answer.mark),
    ),
    ...answerCells(answer, levels),
  );
  row.dataset.gpu = gpu;
  row.addEventListener("click", ({target}) => target !== tick && pick(gpu));
  return row;
}

/** Moves the focus among the rows: arrows, Home and End. */
function moveFocus(body, event) {
  const row = event.target.closest("tr");
  const rows = [...body.children];
  const present = rows.indexOf(row);
  const isTick = event.target.tagName === "INPUT";
  const goal = {
    ArrowDown: [present + 1, isTick],
    ArrowUp: [present - 1, isTick],
    Home: [0, isTick],
    End: [rows.length - 1, isTick],
    ArrowLeft: [present, true],
    ArrowRight: [present, false],
  }[event.key];
  const element = goal && rows[goal[0]]?.querySelector(goal[1] ? "input" : ".pick");
  if (!element) {
    return;
  }
  event.preventDefault();
  for (const each of body.querySelectorAll("[tabindex='0']")) {
    each.tabIndex = -1;
  }
  element.tabIndex = 0;
  element.focus();
}

/** Rows in place of those before; the focus stays with its GPU. */
function replaceRows(body, rows) {
  const focus = body.contains(document.activeElement) ? document.activeElement : null;
  const gpu = focus?.closest("tr").dataset.gpu;
  body.replaceChildren(...rows);
  if (rows.length > 0 && body.querySelector("[tabindex='0']") === null) {
    rows[0].querySelector(".pick").tabIndex = 0;
  }
  if (focus !== null) {
    const row = rows.find((each) => each.dataset.gpu === gpu);
    row?.querySelector(focus.tagName === "INPUT" ? "input" : ".pick").focus({preventScroll: true});
  }
}

/** How many answers there are, and how many of them are good. */
function rankingCount(answers, shown) {
  const good = answers.filter(({verdict}) => verdict?.word?.startsWith("pass")).length;
  const refused = answers.filter(({refusal}) => refusal !== null).length;
  const hidden = shown < answers.length ? `${shown} of ${answers.length} shown; ` : "";
  const isJudged = answers.some(({question}) => Object.keys(question.slo).length > 0);
  const meeting = isJudged ? `${good} of ${answers.length} meet the limits` : `${answers.length} GPUs, no limit is set`;
  return `${hidden}${meeting}, ${refused} have no answer.`;
}

/**
 * A table of ranked answers.
 *
 * @param {HTMLElement} place where it stands.
 * @param {object} actions pick(gpu): a GPU was chosen; compare(gpus): GPUs that the charts draw, too.
 */
export function rankingTable(place, actions) {
  const order = {column: null, isDown: false};
  const state = {answers: [], levels: {}, filter: "", current: "", compared: []};
  const body = make("tbody", {});
  const count = make("p", {class: "hint"});
  const heads = COLUMNS.map(([column, title, look]) => {
    const sort = button(
      title,
      () => {
        const isSame = order.column === column;
        order.column = isSame && order.isDown ? null : column;
        order.isDown = isSame && !order.isDown;
        show();
      },
      {class: "sort"},
    );
    return make("th", {scope: "col", class: look}, sort);
  });
  const ticks = make("th", {scope: "col"}, make("span", {class: "unseen"}, "Draw in the charts"));
  const table = make(
    "table",
    {class: "ranking"},
    make("caption", {class: "unseen"}, "GPUs, the best first"),
    make("thead", {}, make("tr", {}, ticks, ...heads)),
    body,
  );
  const box = scrollBox("GPUs, ranked", table);
  box.classList.add("tall");
  place.replaceChildren(box, count);
  body.addEventListener("keydown", (event) => moveFocus(body, event));

  function show() {
    heads.forEach((head, index) => {
      const direction = order.isDown ? "descending" : "ascending";
      setAttributes(head, {"aria-sort": COLUMNS[index][0] === order.column ? direction : null});
    });
    const words = state.filter.trim().toLowerCase();
    const shown = sorted(state.answers, order, state.levels).filter(({question}) =>
      question.gpu.toLowerCase().includes(words),
    );
    replaceRows(
      body,
      shown.map((answer) => rankingRow(answer, state, actions)),
    );
    count.textContent = rankingCount(state.answers, shown.length);
  }

  return {
    update: (change) => {
      Object.assign(state, change);
      show();
    },
    answers: () => state.answers,
  };
}
