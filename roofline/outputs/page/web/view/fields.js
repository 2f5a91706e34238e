/** Fields of the question: their texts, and the question that these texts ask. */

import {defaults} from "../engine/question.js";
import {LEVELS} from "./text.js";
import {Typo, typedNumber, typedPrefix, typedQuantity, typedRate, typedShare, typedSize, typedTime} from "./typed.js";

/** Loads: key of the address, and the words after the amount. */
export const LOADS = {
  concurrency: {key: "users", words: "users"},
  request_rate: {key: "rate", words: "requests per second"},
  batch: {key: "batch", words: "requests in one burst"},
};

/** Latencies that can be limited. */
export const LIMITED = ["ttft", "tpot", "e2el"];

/** Figures of an own GPU: field, dimension, example. */
export const OWN = {
  ownPeak: ["FLOP/s", "the dense 16-bit peak, such as 989 TFLOP/s"],
  ownBandwidth: ["B/s", "the memory bandwidth, such as 3.35 TB/s"],
  ownMemory: ["B", "the memory, such as 80 GB"],
  ownLink: ["B/s", "the link to other GPUs in one direction, such as 450 GB/s"],
};

const DEGREES = {pp: "pp", ep: "ep", dp: "dp", replicas: "replicas"};
/** GPUs that charts draw beside the one asked about. */
export const MOST_COMPARED = 3;

const MOST_DEGREE = 1024;
const ORDINARY = "as quantization";

/** A time [s] as text that reads back as itself. */
function exactTime(seconds) {
  return seconds >= 1 ? `${seconds} s` : `${Number((seconds * 1e3).toPrecision(12))} ms`;
}

/** Word of a level. */
function levelWord(level) {
  return Object.keys(LEVELS).find((word) => LEVELS[word] === (level ?? null)) ?? "mean";
}

/** Texts of the fields of limits. */
export function limitTexts(slo) {
  const texts = {};
  for (const name of LIMITED) {
    texts[name] = slo[name] ? exactTime(slo[name].limit) : "";
    texts[`${name}Level`] = levelWord(slo[name]?.level);
  }
  return texts;
}

/** Texts of the fields with which the page opens. */
export function defaultTexts(contents) {
  const question = defaults(contents);
  return {
    model: question.model,
    gpu: question.gpu,
    compare: [],
    quantization: question.quantization,
    kv: question.kv,
    plan: question.tp === null ? "" : String(question.tp),
    pp: String(question.pp),
    ep: String(question.ep),
    dp: String(question.dp),
    replicas: String(question.replicas),
    isl: String(question.isl),
    osl: String(question.osl),
    prefix: String(question.prefix),
    cacheHit: question.cacheHit === null ? "" : String(question.cacheHit),
    load: question.load,
    amount: String(question.amount),
    engine: question.engine,
    network: exactTime(question.network),
    basis: question.basis,
    ...limitTexts(question.slo),
    price: question.price === null ? "" : String(question.price),
    ownName: "",
    ownPeak: "",
    ownBandwidth: "",
    ownMemory: "",
    ownLink: "",
    ownPrice: "",
    theme: "auto",
  };
}

/** Entry of a catalog with this name, alias or id; null without one. */
export function entryNamed(entries, text) {
  const wanted = text.trim().toLowerCase();
  return (
    entries.find((entry) => entry.name.toLowerCase() === wanted || entry.id?.toLowerCase() === wanted) ??
    entries.find((entry) => entry.aliases.some((alias) => alias.toLowerCase() === wanted)) ??
    null
  );
}

/** Number of edits between two words. */
function editDistance(first, second) {
  let previous = Array.from({length: second.length + 1}, (_, index) => index);
  for (let row = 1; row <= first.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= second.length; column += 1) {
      const swap = previous[column - 1] + (first[row - 1] === second[column - 1] ? 0 : 1);
      current.push(Math.min(swap, previous[column] + 1, current[column - 1] + 1));
    }
    previous = current;
  }
  return previous[second.length];
}

/** Name of an entry, or a refusal that suggests the nearest three. */
function knownName(entries, text, what) {
  const entry = entryNamed(entries, text);
  if (entry !== null) {
    return entry.name;
  }
  const wanted = text.trim().toLowerCase();
  if (wanted === "") {
    throw new Typo(`Enter the name of a ${what}.`);
  }
  const names = entries.map(({name}) => name);
  const near = names.filter((name) => name.toLowerCase().includes(wanted));
  const shown = wanted.slice(0, 60);
  const nearest = d3.sort(names, (name) => editDistance(shown, name.toLowerCase()));
  throw new Typo(`No ${what} "${text.trim().slice(0, 60)}"; nearest: ${[...near, ...nearest].slice(0, 3).join(", ")}.`);
}

/** One of the words that a choice takes. */
function chosen(words, text) {
  if (!words.includes(text)) {
    throw new Typo(`"${text.slice(0, 40)}" is not one of ${words.slice(0, 6).join(", ")}.`);
  }
  return text;
}

/** Whether the fields of an own GPU are those of the GPU asked about. */
export function asksForOwn(texts) {
  return texts.ownName.trim() !== "" && texts.gpu.trim() === texts.ownName.trim();
}

/** Reads every field; `failed` collects messages by field. */
class Reader {
  constructor(texts) {
    this.texts = texts;
    this.errors = {};
  }

  /** Value of a field; undefined after a mistake, which is kept for its field. */
  read(field, reader) {
    try {
      return reader(this.texts[field]);
    } catch (mistake) {
      if (!(mistake instanceof Typo)) {
        throw mistake;
      }
      this.errors[field] = mistake.message;
      return undefined;
    }
  }

  /** Value of a field that may be blank: then null. */
  optional(field, reader) {
    return this.read(field, (text) => (text.trim() === "" ? null : reader(text)));
  }
}

/** Amount of a load from text. */
function readAmount(text, load) {
  if (load === "request_rate") {
    return typedRate(text);
  }
  return typedSize(
    text,
    {least: 1, most: 1e6},
    `a whole number of ${load === "batch" ? "requests" : "users"} such as 32`,
  );
}

/** The own GPU that the fields describe; null where it is not asked about. */
function readOwn(reader, contents) {
  const {texts} = reader;
  if (!asksForOwn(texts)) {
    return null;
  }
  const name = texts.ownName.trim();
  if (entryNamed(contents.gpus, name) !== null) {
    reader.errors.ownName = `The catalog has a GPU "${name}"; choose another name.`;
  } else if (/[,;"'`\\]/.test(name) || name.length > 40) {
    reader.errors.ownName = "At most 40 characters, without commas, semicolons, quotes and backslashes.";
  }
  const [peak, bandwidth, memory, link] = Object.entries(OWN).map(([field, [dimension, example]]) =>
    reader.read(field, (text) => typedQuantity(text, dimension, example)),
  );
  return {name, peak, bandwidth, memory, link, price: reader.optional("ownPrice", readPrice)};
}

/** A price [USD per GPU-hour] from text. */
function readPrice(text) {
  const plain = text
    .trim()
    .replace(/^(?:\$|usd)\s*/i, "")
    .replace(/\s*(?:\$|usd)?(?:\s*\/\s*h)?$/i, "");
  return typedNumber(plain, {above: 0, most: 1e5}, "a price in USD per GPU-hour such as 2.5");
}

/** Limits of the fields, those left blank apart. */
function readLimits(reader) {
  const slo = {};
  for (const name of LIMITED) {
    const word = reader.read(`${name}Level`, (text) => chosen(Object.keys(LEVELS), text));
    const limit = reader.optional(name, (text) => typedTime(text));
    if (limit !== null) {
      slo[name] = {limit, level: LEVELS[word]};
    }
  }
  return slo;
}

/**
 * The question that texts ask.
 *
 * @returns {{question: object|null, errors: Object<string, string>, compare: string[]}} question is null where a text
 *   is wrong; errors are messages by field.
 */
export function questionOf(contents, texts) {
  const reader = new Reader(texts);
  const load = reader.read("load", (text) => chosen(Object.keys(LOADS), text));
  const isl = reader.read("isl", (text) => typedSize(text, {least: 1}));
  const quantizations = contents.quantizations.map(({name}) => name);
  const degrees = Object.keys(DEGREES).map((field) => [
    field,
    reader.read(field, (text) => typedSize(text, {least: 1, most: MOST_DEGREE}, "a whole number such as 2")),
  ]);
  const ownGpu = readOwn(reader, contents);
  const question = {
    model: reader.read("model", (text) => knownName(contents.models, text, "model")),
    gpu: ownGpu?.name ?? reader.read("gpu", (text) => knownName(contents.gpus, text, "GPU")),
    quantization: reader.read("quantization", (text) => chosen(quantizations, text)),
    kv: reader.read("kv", (text) => chosen([ORDINARY, ...contents.kvFormats], text)),
    tp: reader.optional("plan", (text) => typedSize(text, {least: 1, most: MOST_DEGREE}, "a whole number such as 2")),
    ...Object.fromEntries(degrees),
    isl,
    osl: reader.read("osl", (text) => typedSize(text, {least: 1})),
    prefix: reader.read("prefix", (text) => typedPrefix(text.trim() === "" ? "0" : text, isl ?? 1e9)),
    cacheHit: reader.optional("cacheHit", typedShare),
    load,
    amount: reader.read("amount", (text) => readAmount(text, load)),
    engine: reader.read("engine", (text) => chosen(contents.engines, text)),
    network: reader.optional("network", (text) => typedTime(text, {least: 0})) ?? 0,
    basis: reader.read("basis", (text) => chosen(["calibrated", "ideal"], text)),
    slo: readLimits(reader),
    price: reader.optional("price", readPrice),
    ownGpu,
  };
  const compare = texts.compare
    .map((name) => entryNamed(contents.gpus, name)?.name)
    .filter((name, index, all) => name && name !== question.gpu && all.indexOf(name) === index)
    .slice(0, MOST_COMPARED);
  return {question: Object.keys(reader.errors).length > 0 ? null : question, errors: reader.errors, compare};
}
