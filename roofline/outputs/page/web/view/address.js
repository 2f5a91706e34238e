/** The fields as the part of the address after #, and back. */

import {LIMITED, LOADS} from "./fields.js";

const KEYS = {
  model: "m",
  quantization: "q",
  kv: "kv",
  plan: "tp",
  pp: "pp",
  ep: "ep",
  dp: "dp",
  replicas: "replicas",
  isl: "isl",
  osl: "osl",
  prefix: "prefix",
  cacheHit: "hit",
  engine: "engine",
  network: "net",
  basis: "basis",
  price: "price",
  theme: "theme",
};
const ALWAYS = new Set(["model", "isl", "osl"]);
const OWN_FIELDS = ["ownName", "ownPeak", "ownBandwidth", "ownMemory", "ownLink", "ownPrice"];

/** A text in an address, kept readable. */
function escaped(text) {
  return encodeURIComponent(text.trim())
    .replace(/%(2C|2F|3A|3B|40)/g, decodeURIComponent)
    .replace(/%20/g, "+");
}

/** A text from an address; what is not understood stays as it is. */
function unescaped(text) {
  const spaced = text.replace(/\+/g, " ");
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

/** A text without blanks, such as 300ms. */
function compact(text) {
  return text.replace(/\s/g, "");
}

/** Address of these texts, without #: what differs from the first texts, and the heart of the question. */
export function addressOf(texts, first) {
  const parts = [["m", texts.model]];
  for (const [field, key] of Object.entries(KEYS)) {
    if (field !== "model" && (ALWAYS.has(field) || texts[field] !== first[field])) {
      parts.push([key, texts[field]]);
    }
  }
  parts.push([LOADS[texts.load]?.key ?? "users", texts.amount]);
  for (const name of LIMITED) {
    const level = texts[`${name}Level`];
    if (texts[name] !== first[name] || level !== first[`${name}Level`]) {
      parts.push([name, compact(texts[name]) + (level === "mean" ? "" : `@${level}`)]);
    }
  }
  if (texts.ownName.trim() !== "") {
    parts.push([
      "own",
      OWN_FIELDS.map((field) => (field === "ownName" ? texts[field].trim() : compact(texts[field]))).join(";"),
    ]);
  }
  const gpus = [texts.gpu, ...texts.compare].map((name) => escaped(name).replace(/,/g, "%2C"));
  const [model, ...rest] = parts.map(([key, text]) => `${key}=${escaped(text)}`);
  return [model, `g=${gpus.join(",")}`, ...rest].join("&");
}

/**
 * Texts that an address holds.
 *
 * @returns {{texts: object, unknown: string[]}} the first texts with those of the address; keys that mean nothing.
 */
export function textsOf(address, first) {
  const texts = {...first};
  const unknown = [];
  const fields = new Map(Object.entries(KEYS).map(([field, key]) => [key, field]));
  const loads = new Map(Object.entries(LOADS).map(([load, {key}]) => [key, load]));
  for (const part of address.replace(/^#/, "").split("&").filter(Boolean)) {
    const [key, ...rest] = part.split("=");
    const text = unescaped(rest.join("="));
    if (fields.has(key)) {
      texts[fields.get(key)] = text;
    } else if (key === "g") {
      [texts.gpu, ...texts.compare] = rest.join("=").split(",").map(unescaped);
    } else if (loads.has(key)) {
      texts.load = loads.get(key);
      texts.amount = text;
    } else if (LIMITED.includes(key)) {
      const [limit, level] = text.split("@");
      texts[key] = limit;
      texts[`${key}Level`] = level || "mean";
    } else if (key === "own") {
      const figures = text.split(";");
      OWN_FIELDS.forEach((field, index) => {
        texts[field] = figures[index] ?? "";
      });
    } else {
      unknown.push(unescaped(key).slice(0, 40));
    }
  }
  return {texts, unknown};
}
