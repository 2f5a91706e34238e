/** Why the answer is what it is: bounds, kernels with their equation, and what moves it. */

import {boundText} from "./answer_panel.js";
import {button, make, scrollBox} from "./dom.js";
import {saveCsv} from "./export.js";
import {isFigure, percentText, quantityText, secondsText, threeDigits} from "./text.js";

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

/** A pass and what it waits for. */
function boundBlock(title, bound, kernels) {
  const total = kernels.reduce((sum, kernel) => sum + kernel.total, 0);
  const [longest] = [...kernels].sort((a, b) => b.total - a.total);
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
  if (!knees) {
    return null;
  }
  const unit = load === "batch" ? "sequences" : "users";
  const lines = Object.entries(KNEES)
    .filter(([name]) => isFigure(knees[name]))
    .map(([name, text]) =>
      make("div", {}, make("dt", {}, text), make("dd", {}, `${threeDigits(knees[name])} ${unit}`)),
    );
  return lines.length === 0
    ? null
    : make(
        "div",
        {class: "bound"},
        make("h3", {}, "Where decode stops being cheap"),
        make("dl", {class: "facts compact"}, ...lines),
      );
}

/** A bar of an elasticity to the left or right of zero. */
function elasticityBar(value, most) {
  const bar = make("span", {class: value < 0 ? "bar-part less" : "bar-part more"});
  const share = 50 * Math.min(1, Math.abs(value) / most);
  bar.style.width = `${share}%`;
  bar.style.marginLeft = value < 0 ? `${50 - share}%` : "50%";
  return make("span", {class: "bar-box", "aria-hidden": "true"}, bar);
}

/** What moves TTFT and TPOT most. */
function moversBlock(sensitivities) {
  const strength = ({ttft, tpot}) => Math.max(Math.abs(ttft ?? 0), Math.abs(tpot ?? 0));
  const shown = sensitivities
    .filter((each) => strength(each) >= 5e-3)
    .sort((a, b) => strength(b) - strength(a))
    .slice(0, MOST_MOVERS);
  if (shown.length === 0) {
    return null;
  }
  const most = Math.max(...shown.map(strength));
  const signed = (value) => `${value > 0 ? "+" : ""}${threeDigits(Number(value.toFixed(3)))}`;
  const cell = (value) =>
    make(
      "td",
      {class: "number elasticity"},
      isFigure(value) ? signed(value) : "-",
      isFigure(value) ? elasticityBar(value, most) : null,
    );
  const rows = shown.map(({text, ttft, tpot}) =>
    make("tr", {}, make("th", {scope: "row"}, text), cell(ttft), cell(tpot)),
  );
  return make(
    "div",
    {},
    make("h3", {}, "What moves it most"),
    make("p", {class: "hint"}, "% change per 1 % more of the input; a minus is faster."),
    scrollBox(
      "What moves it most",
      make(
        "table",
        {class: "movers"},
        make("caption", {class: "unseen"}, "Elasticities"),
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            ...["input", "TTFT", "TPOT"].map((title, index) =>
              make("th", {scope: "col", class: index > 0 ? "number" : null}, title),
            ),
          ),
        ),
        make("tbody", {}, ...rows),
      ),
    ),
  );
}

/** Kernels of both passes as values, for CSV. */
function kernelRows(kernels) {
  const keys = [
    "pass",
    "name",
    "kind",
    "label",
    "count",
    "flop",
    "nbytes",
    "linkBytes",
    "time",
    "total",
    "share",
    "bound",
    "equation",
  ];
  const columns = [
    "pass",
    "kernel",
    "kind",
    "label",
    "count",
    "flop",
    "nbytes",
    "link_bytes",
    "time_s",
    "total_s",
    "share",
    "bound",
    "equation",
  ];
  return {columns, values: kernels.map((kernel) => keys.map((key) => kernel[key]))};
}

/** A table of the kernels of a pass; choosing one shows its equation. */
function kernelTable(pass, kernels, choose) {
  const titles = ["kernel", "runs", "one run", "in all", "share", "bound", "FLOP", "bytes"];
  const texts = [1, 2, 3, 4, 6, 7];
  const rows = [...kernels]
    .sort((a, b) => b.total - a.total)
    .map((kernel) => {
      const pick = button(kernel.name, () => choose(kernel), {class: "pick", "aria-controls": "equation"});
      const row = make(
        "tr",
        {},
        make("th", {scope: "row"}, pick),
        make("td", {class: "number"}, threeDigits(kernel.count)),
        make("td", {class: "number"}, secondsText(kernel.time)),
        make("td", {class: "number"}, secondsText(kernel.total)),
        make("td", {class: "number"}, percentText(kernel.share)),
        make("td", {}, kernel.bound ?? "-"),
        make("td", {class: "number"}, kernel.flop > 0 ? quantityText(kernel.flop, "FLOP") : "-"),
        make(
          "td",
          {class: "number"},
          kernel.nbytes > 0
            ? quantityText(kernel.nbytes, "B")
            : kernel.linkBytes > 0
              ? `${quantityText(kernel.linkBytes, "B")} sent`
              : "-",
        ),
      );
      row.dataset.kernel = `${kernel.pass} ${kernel.name}`;
      row.addEventListener("click", () => choose(kernel));
      return row;
    });
  return scrollBox(
    `Kernels of ${pass}`,
    make(
      "table",
      {class: "kernels"},
      make("caption", {class: "unseen"}, `Kernels of ${pass}, the longest first`),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          ...titles.map((title, index) =>
            make("th", {scope: "col", class: texts.includes(index) ? "number" : null}, title),
          ),
        ),
      ),
      make("tbody", {}, ...rows),
    ),
  );
}

/** Kernels, and the equation of the chosen one with its numbers. */
function kernelsBlock(kernels, chosen) {
  const equation = make("div", {id: "equation", "aria-live": "polite"});
  const tables = ["prefill", "decode"].map((pass) => {
    const own = kernels.filter((kernel) => kernel.pass === pass);
    return make(
      "div",
      {},
      make("h4", {}, pass === "prefill" ? "Prefill" : "Decode step"),
      kernelTable(pass, own, choose),
    );
  });
  function choose(kernel) {
    chosen.key = `${kernel.pass} ${kernel.name}`;
    equation.replaceChildren(
      make("p", {class: "code-label"}, `${kernel.pass}, ${kernel.name}: the equation with its numbers`),
      make("pre", {tabindex: 0}, make("code", {}, kernel.equation ?? "-")),
    );
    for (const table of tables) {
      for (const row of table.querySelectorAll("tbody tr")) {
        row.setAttribute("aria-selected", String(row.dataset.kernel === chosen.key));
      }
    }
  }
  const [longest] = [...kernels].filter(({pass}) => pass === "decode").sort((a, b) => b.total - a.total);
  const first = kernels.find((kernel) => `${kernel.pass} ${kernel.name}` === chosen.key) ?? longest ?? kernels[0];
  if (first) {
    choose(first);
  }
  const {columns, values} = kernelRows(kernels);
  return make(
    "div",
    {class: "kernel-block"},
    make(
      "div",
      {class: "bar"},
      make("h3", {}, "Kernels"),
      button("CSV", () => saveCsv("roofline-kernels", columns, values), {"aria-label": "CSV: kernels"}),
    ),
    make("p", {class: "hint"}, "Choose a kernel to see its equation."),
    equation,
    make("div", {class: "two"}, ...tables),
  );
}

/** Shows why: for an answer and its details. */
export function showWhy(place, answer, {kernels, sensitivities}, chosen) {
  if (answer.refusal) {
    place.replaceChildren(make("p", {class: "empty"}, "There is no answer to explain."));
    return;
  }
  const of = (pass) => kernels.filter((kernel) => kernel.pass === pass);
  place.replaceChildren(
    make(
      "div",
      {class: "two"},
      make(
        "div",
        {},
        ...[
          boundBlock("Prefill", answer.bound?.prefill, of("prefill")),
          boundBlock("Decode", answer.bound?.decode, of("decode")),
          kneesBlock(answer.knees, answer.question.load),
        ].filter((block) => block !== null),
      ),
      moversBlock(sensitivities) ?? make("div"),
    ),
    kernelsBlock(kernels, chosen),
  );
}
