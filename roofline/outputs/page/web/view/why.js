/** Why the answer is what it is: bounds, knees, and what moves it. */

import {boundText} from "./answer_panel.js";
import {make, scrollBox} from "./dom.js";
import {kernelsBlock} from "./kernel_tables.js";
import {isFigure, percentText, secondsText, threeDigits} from "./text.js";

const WAITS = {
  compute: "arithmetic",
  memory: "memory traffic",
  latency: "launches, serial steps and the host",
  link: "the links between GPUs",
  exponentials: "the exponentials of the softmax",
};
const KNEES = {
  ridge: "weights stop being memory-bound",
  half: "throughput reaches half of its most",
  memory: "the memory is full",
  slo: "the limits are just met",
};
const MOST_MOVERS = 10;
const LEAST_MOVE = 5e-3;

/** A pass and what it waits for. */
function boundBlock(title, bound, kernels) {
  const total = d3.sum(kernels, (kernel) => kernel.total);
  const [longest] = d3.sort(kernels, (kernel) => -kernel.total);
  const words = longest
    ? ` Its longest part is ${longest.name}: ${percentText(longest.share)} of ${secondsText(total)}.`
    : "";
  return make(
    "div",
    {class: "bound"},
    make("h3", {}, title, make("span", {class: "badge"}, boundText(bound))),
    make("p", {}, `Most of the time is spent waiting for ${WAITS[bound] ?? bound ?? "nothing known"}.${words}`),
  );
}

/** The batches or users at which decode stops being cheap. */
function kneesBlock(knees, load) {
  const names = Object.keys(KNEES).filter((name) => isFigure(knees?.[name]));
  if (names.length === 0) {
    return null;
  }
  const unit = load === "batch" ? "sequences" : "users";
  const lines = names.map((name) =>
    make("div", {}, make("dt", {}, KNEES[name]), make("dd", {}, `${threeDigits(knees[name])} ${unit}`)),
  );
  const title = make("h3", {}, "Where decode stops being cheap");
  return make("div", {class: "bound"}, title, make("dl", {class: "facts compact"}, ...lines));
}

/** A bar of an elasticity to the left or right of zero. */
function elasticityBar(value, most) {
  const bar = make("span", {class: value < 0 ? "bar-part less" : "bar-part more"});
  const share = 50 * Math.min(1, Math.abs(value) / most);
  bar.style.width = `${share}%`;
  bar.style.marginLeft = value < 0 ? `${50 - share}%` : "50%";
  return make("span", {class: "bar-box", "aria-hidden": "true"}, bar);
}

/** Larger of the two moves of an input. */
function strength({ttft, tpot}) {
  return Math.max(Math.abs(ttft ?? 0), Math.abs(tpot ?? 0));
}

/** A cell with an elasticity and its bar. */
function elasticityCell(value, most) {
  if (!isFigure(value)) {
    return make("td", {class: "number elasticity"}, "-");
  }
  const near = Number(value.toFixed(3));
  const text = `${near > 0 ? "+" : ""}${threeDigits(near)}`;
  return make("td", {class: "number elasticity"}, text, elasticityBar(value, most));
}

/** What moves TTFT and TPOT most. */
function moversBlock(sensitivities) {
  const moving = sensitivities.filter((each) => strength(each) >= LEAST_MOVE);
  const shown = d3.sort(moving, (each) => -strength(each)).slice(0, MOST_MOVERS);
  if (shown.length === 0) {
    return make("div");
  }
  const most = strength(shown[0]);
  const rows = shown.map(({text, ttft, tpot}) =>
    make("tr", {}, make("th", {scope: "row"}, text), elasticityCell(ttft, most), elasticityCell(tpot, most)),
  );
  const heads = ["input", "TTFT", "TPOT"].map((title, index) =>
    make("th", {scope: "col", class: index > 0 ? "number" : null}, title),
  );
  const table = make(
    "table",
    {class: "movers"},
    make("caption", {class: "unseen"}, "Elasticities"),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows),
  );
  return make(
    "div",
    {},
    make("h3", {}, "What moves it most"),
    make("p", {class: "hint"}, "% change per 1 % more of the input; a minus is faster."),
    scrollBox("What moves it most", table),
  );
}

/** Shows why: for an answer and its details; `chosen` keeps which kernel was chosen. */
export function showWhy(place, answer, {kernels, sensitivities}, chosen) {
  if (answer.refusal) {
    place.replaceChildren(make("p", {class: "empty"}, "There is no answer to explain."));
    return;
  }
  const of = (pass) => kernels.filter((kernel) => kernel.pass === pass);
  const bounds = [
    boundBlock("Prefill", answer.bound?.prefill, of("prefill")),
    of("decode").length > 0 ? boundBlock("Decode", answer.bound?.decode, of("decode")) : null,
    kneesBlock(answer.knees, answer.question.load),
  ];
  const left = make("div", {}, ...bounds.filter((block) => block !== null));
  place.replaceChildren(make("div", {class: "two"}, left, moversBlock(sensitivities)), kernelsBlock(kernels, chosen));
}
