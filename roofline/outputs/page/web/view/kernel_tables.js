/** Kernels of both passes, and the equation of one with its numbers. */

import {button, make, scrollBox, setAttributes} from "./dom.js";
import {saveCsv} from "./export.js";
import {percentText, quantityText, secondsText, threeDigits} from "./text.js";

const KERNEL_KEYS = {
  pass: "pass",
  name: "kernel",
  kind: "kind",
  label: "label",
  count: "count",
  flop: "flop",
  nbytes: "nbytes",
  linkBytes: "link_bytes",
  time: "time_s",
  total: "total_s",
  share: "share",
  bound: "bound",
  equation: "equation",
};
const PASS_TITLES = {prefill: "Prefill", decode: "Decode step"};
const HEADS = ["kernel", "runs", "one run", "in all", "share", "bound", "FLOP", "bytes"];
const WORD_HEADS = new Set(["kernel", "bound"]);

/** Name of a kernel among those of both passes. */
function keyOfKernel({pass, name}) {
  return `${pass} ${name}`;
}

/** What a kernel moves, in words. */
function movedText({nbytes, linkBytes}) {
  if (nbytes > 0) {
    return quantityText(nbytes, "B");
  }
  return linkBytes > 0 ? `${quantityText(linkBytes, "B")} sent` : "-";
}

/** A cell with a number. */
function numberCell(text) {
  return make("td", {class: "number"}, text);
}

/** A row of a kernel. */
function kernelRow(kernel, choose) {
  const row = make(
    "tr",
    {},
    make(
      "th",
      {scope: "row"},
      button(kernel.name, () => choose(kernel), {class: "pick", "aria-controls": "equation"}),
    ),
    numberCell(threeDigits(kernel.count)),
    numberCell(secondsText(kernel.time)),
    numberCell(secondsText(kernel.total)),
    numberCell(percentText(kernel.share)),
    make("td", {}, kernel.bound ?? "-"),
    numberCell(kernel.flop > 0 ? quantityText(kernel.flop, "FLOP") : "-"),
    numberCell(movedText(kernel)),
  );
  row.dataset.kernel = keyOfKernel(kernel);
  row.addEventListener("click", () => choose(kernel));
  return row;
}

/** A table of the kernels of a pass; choosing one shows its equation. */
function kernelTable(pass, kernels, choose) {
  const heads = HEADS.map((title) => make("th", {scope: "col", class: WORD_HEADS.has(title) ? null : "number"}, title));
  const rows = d3.sort(kernels, (kernel) => -kernel.total).map((kernel) => kernelRow(kernel, choose));
  const table = make(
    "table",
    {class: "kernels"},
    make("caption", {class: "unseen"}, `${PASS_TITLES[pass]}: kernels, the longest first`),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows),
  );
  return make("div", {}, make("h4", {}, PASS_TITLES[pass]), scrollBox(`Kernels: ${PASS_TITLES[pass]}`, table));
}

/** Kernels, and the equation of the chosen one with its numbers; `chosen` keeps which one. */
export function kernelsBlock(kernels, chosen) {
  const equation = make("div", {id: "equation", "aria-live": "polite"});
  const tables = make("div", {class: "two"});
  const choose = (kernel) => {
    chosen.key = keyOfKernel(kernel);
    const title = `${kernel.pass}, ${kernel.name}: the equation with its numbers`;
    equation.replaceChildren(
      make("p", {class: "code-label"}, title),
      make("pre", {tabindex: 0}, make("code", {}, kernel.equation ?? "-")),
    );
    for (const row of tables.querySelectorAll("tbody tr")) {
      setAttributes(row, {class: row.dataset.kernel === chosen.key ? "chosen" : null});
    }
  };
  tables.append(
    ...["prefill", "decode"].map((pass) => {
      const own = kernels.filter((kernel) => kernel.pass === pass);
      return kernelTable(pass, own, choose);
    }),
  );
  const byTime = d3.sort(kernels, (kernel) => -kernel.total);
  const first =
    kernels.find((kernel) => keyOfKernel(kernel) === chosen.key) ??
    byTime.find(({pass}) => pass === "decode") ??
    byTime[0];
  if (first) {
    choose(first);
  }
  const save = () => {
    const values = kernels.map((kernel) => Object.keys(KERNEL_KEYS).map((key) => kernel[key]));
    saveCsv("roofline-kernels", Object.values(KERNEL_KEYS), values);
  };
  return make(
    "div",
    {class: "kernel-block"},
    make("div", {class: "bar"}, make("h3", {}, "Kernels"), button("CSV", save, {"aria-label": "CSV: kernels"})),
    make("p", {class: "hint"}, "Choose a kernel to see its equation."),
    equation,
    tables,
  );
}
