/** The form: fields, their choices and their messages. */

import {combobox} from "./combobox.js";
import {byId, make, option, setAttributes} from "./dom.js";
import {LIMITED, LOADS, OWN, limitTexts} from "./fields.js";
import {LEVELS, countText, isFigure, quantityText, usdText} from "./text.js";

const PLANS = [1, 2, 4, 8, 16];
const GROUPS = {
  "inputs-plan": [
    ["engine", "Engine", "select"],
    ["kv", "KV cache format", "select"],
    ["pp", "Pipeline parallel, pp", "text"],
    ["ep", "Expert parallel, ep", "text"],
    ["dp", "Data parallel, dp", "text"],
    ["replicas", "Replicas", "text"],
    ["cacheHit", "Share of requests that hit the prefix", "text", "all"],
    ["network", "Network round trip", "text"],
    ["basis", "Basis", "select"],
  ],
  "inputs-own": [
    ["ownName", "Name", "text", "my-gpu"],
    ["ownPeak", "16-bit peak, dense", "text", "989 TFLOP/s"],
    ["ownBandwidth", "Memory bandwidth", "text", "3.35 TB/s"],
    ["ownMemory", "Memory", "text", "80 GB"],
    ["ownLink", "Link to other GPUs", "text", "450 GB/s"],
    ["ownPrice", "Price, USD per hour", "text", "not known"],
  ],
};
const IN_SENTENCE = [
  "model",
  "plan",
  "gpu",
  "quantization",
  "isl",
  "prefix",
  "osl",
  "amount",
  "load",
  "price",
  ...LIMITED.flatMap((name) => [name, `${name}Level`]),
];
const IN_MORE = Object.values(GROUPS).flatMap((fields) => fields.map(([field]) => field));

const FIELDS = [...IN_SENTENCE, ...IN_MORE];

/** The control of a field. */
function control(field) {
  return byId(`in-${field}`);
}

/** Labelled controls of the groups behind "More inputs". */
function makeGroups() {
  for (const [place, fields] of Object.entries(GROUPS)) {
    byId(place).replaceChildren(
      ...fields.map(([field, label, kind, placeholder = null]) => {
        const attributes = kind === "select" ? {} : {type: "text", placeholder, spellcheck: "false"};
        return make(
          "div",
          {class: "field"},
          make("label", {for: `in-${field}`}, label),
          make(kind === "select" ? "select" : "input", {id: `in-${field}`, ...attributes}),
        );
      }),
    );
  }
}

/** Adds choices to a field. */
function fill(field, pairs) {
  control(field).append(...pairs.map(([value, text]) => option(value, text)));
}

/** Fills the choices that the catalog gives. */
function fillChoices(contents) {
  fill(
    "plan",
    PLANS.map((degree) => [String(degree), degree === 1 ? "one" : String(degree)]),
  );
  fill(
    "quantization",
    contents.quantizations.filter(({name}) => name !== "native").map(({name}) => [name, name]),
  );
  fill(
    "load",
    Object.entries(LOADS).map(([load, {words}]) => [load, words]),
  );
  fill(
    "engine",
    contents.engines.map((name) => [name, name]),
  );
  fill("kv", [["as quantization", "as the format"], ...contents.kvFormats.map((name) => [name, name])]);
  fill("basis", [
    ["calibrated", "calibrated"],
    ["ideal", "ideal (limit)"],
  ]);
  for (const name of LIMITED) {
    fill(
      `${name}Level`,
      Object.keys(LEVELS).map((word) => [word, word]),
    );
  }
  byId("workload").append(
    ...contents.workloads.map(({name, isl, osl}) => option(name, `${name} (${isl} in, ${osl} out)`)),
  );
}

/** Entries that the combobox of models suggests. */
function modelEntries(contents) {
  return contents.models.map((model) => ({
    name: model.name,
    hint: model.moe
      ? `${countText(model.parameters)}, ${countText(model.activeParameters)} active`
      : countText(model.parameters),
    words: [model.name, model.id, model.family, ...model.aliases].join(" ").toLowerCase(),
  }));
}

/** Entries that the combobox of GPUs suggests. */
function gpuEntries(contents, texts) {
  const entries = contents.gpus.map((gpu) => ({
    name: gpu.name,
    hint: [
      quantityText(gpu.memory, "B"),
      quantityText(gpu.bandwidth, "B/s"),
      gpu.price ? `${usdText(gpu.price.typical)} USD/h` : "",
    ]
      .filter(Boolean)
      .join(", "),
    words: [gpu.name, gpu.vendor, gpu.generation, ...gpu.aliases].join(" ").toLowerCase(),
  }));
  const own = texts.ownName.trim();
  return own === "" ? entries : [{name: own, hint: "your own", words: own.toLowerCase()}, ...entries];
}

/** Width of a control that holds its text, where the browser does not size it by itself. */
function fitWidth(element) {
  if (CSS.supports("field-sizing", "content") || element.closest(".sentence") === null) {
    return;
  }
  const text =
    element.tagName === "SELECT" ? (element.selectedOptions[0]?.text ?? "") : element.value || element.placeholder;
  element.style.width = `${Math.max(text.length, 3) + (element.tagName === "SELECT" ? 4 : 2)}ch`;
}

/** Shows a text in a control; a word that a choice does not have is added, so that it can be seen. */
function showText(element, text) {
  if (element.tagName === "SELECT" && ![...element.options].some(({value}) => value === text)) {
    element.append(option(text, text));
  }
  if (element.value !== text) {
    element.value = text;
  }
  fitWidth(element);
}

/** Shows a message at a field, or takes it away. */
function showMessage(field, message) {
  const element = control(field);
  const id = `message-${field}`;
  const place = element.closest(".field");
  const present = byId(id);
  if (!message) {
    present?.remove();
    setAttributes(element, {"aria-invalid": null, "aria-describedby": null});
    return;
  }
  if (present === null) {
    place.append(make("span", {id, class: "message"}, message));
  } else if (present.textContent !== message) {
    present.textContent = message;
  }
  setAttributes(element, {"aria-invalid": "true", "aria-describedby": id});
}

/** Shows texts and messages in the form, and what follows from them. */
export function showForm(contents, texts, {errors, question}) {
  for (const field of FIELDS) {
    showText(control(field), texts[field]);
    showMessage(field, errors[field]);
  }
  if (IN_MORE.some((field) => errors[field])) {
    openMore(true);
  }
  const workload = contents.workloads.find((each) => isOf(each, texts));
  byId("workload").value = workload?.name ?? "";
  if (question !== null) {
    const price = question.ownGpu?.price ?? contents.gpus.find(({name}) => name === question.gpu)?.price?.typical;
    control("price").placeholder = isFigure(price) ? usdText(price) : "none";
    fitWidth(control("price"));
  }
  const rest = ["pp", "ep", "dp", "replicas"].filter((field) => texts[field].trim() !== "1");
  byId("plan-rest").textContent =
    rest.length === 0 ? "" : `(${rest.map((field) => `${field} ${texts[field]}`).join(", ")})`;
}

/** Texts of a workload: lengths and limits. */
function workloadTexts(workload) {
  const lengths = {isl: String(workload.isl), osl: String(workload.osl), prefix: String(workload.prefix)};
  return {...lengths, ...limitTexts(workload.slo)};
}

/** Whether texts are those of a workload. */
function isOf(workload, texts) {
  return Object.entries(workloadTexts(workload)).every(([field, text]) => texts[field] === text);
}

/** Opens or closes the further inputs. */
function openMore(isOpen) {
  byId("more").hidden = !isOpen;
  setAttributes(byId("more-toggle"), {"aria-expanded": String(isOpen)});
}

/**
 * Makes the form work.
 *
 * @param {object} contents the catalog.
 * @param {object} options texts(): present texts; change(texts): called with the fields that changed; reset().
 */
export function bindForm(contents, {texts, change, reset}) {
  makeGroups();
  fillChoices(contents);
  combobox(control("model"), {
    labelId: "label-model",
    entries: () => modelEntries(contents),
    chosen: (name) => change({model: name}),
  });
  combobox(control("gpu"), {
    labelId: "label-gpu",
    entries: () => gpuEntries(contents, texts()),
    chosen: (name) => change({gpu: name}),
  });
  for (const field of FIELDS) {
    const element = control(field);
    const isName = field === "model" || field === "gpu";
    element.addEventListener(isName || element.tagName === "SELECT" ? "change" : "input", () => {
      fitWidth(element);
      change({[field]: element.value});
    });
  }
  byId("question").addEventListener("submit", (event) => event.preventDefault());
  byId("workload").addEventListener("change", ({target}) => {
    const workload = contents.workloads.find(({name}) => name === target.value);
    if (workload) {
      change(workloadTexts(workload));
    }
  });
  byId("reset").addEventListener("click", reset);
  byId("more-toggle").addEventListener("click", () => openMore(byId("more").hidden));
  byId("use-own").addEventListener("click", () => {
    const own = texts().ownName.trim() || "my-gpu";
    const missing = Object.keys(OWN).filter((field) => texts()[field].trim() === "");
    change({ownName: own, gpu: own});
    if (missing.length > 0) {
      control(missing[0]).focus();
    }
  });
}
