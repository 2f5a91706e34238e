/** GPUs, ranked for the question: sorted, filtered, picked. */

import {make, scrollBox, setAttributes} from "./dom.js";
import {MOST_COMPARED} from "./fields.js";
import {isFigure, latencyAt, levelText, planText, secondsRange, secondsText, usdText} from "./text.js";

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

/**
 * A table of ranked answers.
 *
 * @param {HTMLElement} place where it stands.
 * @param {object} options pick(gpu): a GPU was chosen; compare(gpus): GPUs that the charts draw, too.
 */
export function rankingTable(place, {pick, compare}) {
  const order = {column: null, isDown: false};
  const state = {answers: [], levels: {}, filter: "", current: "", compared: []};
  const titles = [
    ["gpu", "GPU", ""],
    ["gpus", "GPUs", "number gpus"],
    ["ttft", "TTFT", "number"],
    ["tpot", "TPOT", "number"],
    ["verdict", "SLO", ""],
    ["rent", "USD/month", "number"],
  ];
  const heads = titles.map(([column, title, kind]) => {
    const sort = make("button", {type: "button", class: "sort"}, title);
    sort.addEventListener("click", () => {
      const isSame = order.column === column;
      order.column = isSame && order.isDown ? null : column;
      order.isDown = isSame && !order.isDown;
      show();
    });
    return make("th", {scope: "col", class: kind || null}, sort);
  });
  const body = make("tbody", {});
  const table = make(
    "table",
    {class: "ranking"},
    make("caption", {class: "unseen"}, "GPUs, the best first"),
    make(
      "thead",
      {},
      make("tr", {}, make("th", {scope: "col"}, make("span", {class: "unseen"}, "Draw in the charts")), ...heads),
    ),
    body,
  );
  const count = make("p", {class: "hint", "aria-live": "off"});
  place.replaceChildren(scrollBox("GPUs, ranked", table), count);
  place.firstChild.classList.add("tall");

  const row = (answer) => {
    const {gpu} = answer.question;
    const isCurrent = gpu === state.current;
    const tick = make("input", {
      type: "checkbox",
      tabindex: -1,
      "aria-label": `Draw ${gpu} in the charts`,
      checked: state.compared.includes(gpu) || isCurrent,
      disabled: isCurrent || (state.compared.length >= MOST_COMPARED && !state.compared.includes(gpu)),
    });
    tick.addEventListener("change", () =>
      compare(tick.checked ? [...state.compared, gpu] : state.compared.filter((each) => each !== gpu)),
    );
    const name = make("button", {type: "button", class: "pick", tabindex: isCurrent ? 0 : -1}, gpu);
    const mark = make("span", {class: "mark", title: answer.basis}, answer.mark);
    const word = answer.verdict?.word ?? "-";
    const cells = answer.refusal
      ? [make("td", {colspan: 5, class: "reason", title: answer.refusal.message}, answer.refusal.short)]
      : [
          make("td", {class: "number gpus", title: planText(answer.plan)}, String(answer.gpus)),
          latencyCell(answer, "ttft", state.levels.ttft),
          latencyCell(answer, "tpot", state.levels.tpot),
          make("td", {class: word.startsWith("pass") ? "good" : word.startsWith("fail") ? "bad" : null}, word),
          make("td", {class: "number"}, isFigure(answer.usdPerMonth) ? usdText(answer.usdPerMonth) : "-"),
        ];
    const line = make(
      "tr",
      {class: answer.refusal ? "refused" : null, "aria-current": isCurrent ? "true" : null},
      make("td", {class: "tick"}, tick),
      make("th", {scope: "row"}, name, mark),
      ...cells,
    );
    line.addEventListener("click", ({target}) => {
      if (target !== tick) {
        pick(gpu);
      }
    });
    return line;
  };

  const show = () => {
    const focus = body.contains(document.activeElement) ? document.activeElement : null;
    const held = focus?.closest("tr").dataset.gpu;
    heads.forEach((head, index) => {
      const isSorted = titles[index][0] === order.column;
      setAttributes(head, {"aria-sort": isSorted ? (order.isDown ? "descending" : "ascending") : null});
    });
    const words = state.filter.trim().toLowerCase();
    const shown = sorted(state.answers, order, state.levels).filter(({question}) =>
      question.gpu.toLowerCase().includes(words),
    );
    body.replaceChildren(
      ...shown.map((answer) => {
        const line = row(answer);
        line.dataset.gpu = answer.question.gpu;
        return line;
      }),
    );
    const picks = [...body.querySelectorAll(".pick")];
    if (picks.length > 0 && !picks.some((each) => each.tabIndex === 0)) {
      picks[0].tabIndex = 0;
    }
    if (focus !== null) {
      const line = [...body.children].find((each) => each.dataset.gpu === held);
      line?.querySelector(focus.tagName === "INPUT" ? "input" : ".pick").focus({preventScroll: true});
    }
    const good = state.answers.filter(({verdict}) => verdict?.word?.startsWith("pass")).length;
    const refused = state.answers.filter(({refusal}) => refusal !== null).length;
    const hidden = shown.length < state.answers.length ? `${shown.length} of ${state.answers.length} shown; ` : "";
    count.textContent = `${hidden}${good} of ${state.answers.length} meet the limits, ${refused} have no answer.`;
  };

  body.addEventListener("keydown", (event) => {
    const line = event.target.closest("tr");
    const lines = [...body.children];
    const present = lines.indexOf(line);
    const column = event.target.classList.contains("pick") ? ".pick" : "input";
    const next = {
      ArrowDown: present + 1,
      ArrowUp: present - 1,
      Home: 0,
      End: lines.length - 1,
    }[event.key];
    let goal = null;
    if (next !== undefined) {
      goal = lines[next]?.querySelector(column);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      goal = line.querySelector(event.key === "ArrowLeft" ? "input" : ".pick");
    }
    if (goal) {
      event.preventDefault();
      for (const each of body.querySelectorAll("[tabindex='0']")) {
        each.tabIndex = -1;
      }
      goal.tabIndex = 0;
      goal.focus();
    }
  });

  return {
    update: (change) => {
      Object.assign(state, change);
      show();
    },
    answers: () => state.answers,
  };
}
