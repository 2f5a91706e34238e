// A question: its defaults, its checks, and the same question for the shell and for Python.

import {ownFile} from "./own_gpu.js";

const LONGEST = 1e9; // tokens or sequences; anything above is a mistake
const MOST_NETWORK = 60; // [s]

/** The question that the page opens with. */
export function defaults(contents) {
  const has = (records, name) => records.some((record) => record.name === name);
  return {
    model: has(contents.models, "llama-3.1-8b") ? "llama-3.1-8b" : contents.models[0].name,
    gpu: has(contents.gpus, "h100-sxm") ? "h100-sxm" : contents.gpus[0].name,
    quantization: "native",
    kv: "as quantization",
    tp: null,
    pp: 1,
    ep: 1,
    dp: 1,
    replicas: 1,
    isl: 2000,
    osl: 300,
    prefix: 0,
    cacheHit: null,
    load: "concurrency",
    amount: 16,
    engine: "generic",
    network: 0,
    basis: "calibrated",
    slo: {ttft: {limit: 1, level: 95}, tpot: {limit: 0.03, level: 95}},
    price: null,
    ownGpu: null,
  };
}

/** What is wrong with the numbers of a question; null if nothing is. */
export function numbersFault(question) {
  const bounds = [
    ["isl", question.isl, 1],
    ["osl", question.osl, 1],
    [question.load, question.amount, question.load === "request_rate" ? 1 / LONGEST : 1],
    ["replicas", question.replicas, 1],
  ];
  for (const [name, value, least] of bounds) {
    if (!(typeof value === "number" && value >= least && value <= LONGEST)) {
      const bound = name === "request_rate" && !(value >= least) ? "above 0 requests/s" : `at least ${least}`;
      return `${name} = ${value} must be ${value > LONGEST ? "at most 1,000,000,000" : bound}`;
    }
  }
  const {prefix, isl, cacheHit, network} = question;
  if (!(prefix === 0 || prefix >= 1)) return `prefix = ${prefix} is less than one token`;
  if (!(prefix <= isl)) return `prefix = ${prefix} must not exceed the prompt, isl = ${isl}`;
  if (!Number.isInteger(question.replicas)) return `replicas = ${question.replicas} must be a whole number`;
  if (!(network >= 0 && network <= MOST_NETWORK)) return `network = ${network} must be a time of at most 60 s`;
  if (cacheHit !== null && !(cacheHit >= 0 && cacheHit <= 1)) return `cache_hit = ${cacheHit} must be a share`;
  if (cacheHit !== null && prefix === 0) return "a prompt cache needs a prefix, the prompt tokens that it holds";
  for (const [metric, {limit}] of Object.entries(question.slo)) {
    if (!(limit > 0 && limit <= LONGEST)) return `the limit on ${metric} must be above 0`;
  }
  if (question.price !== null && !(question.price > 0 && question.price <= 1e6)) return "a price must be above 0";
  return null;
}

/** Limits of a question as text, such as `ttft:300@p95,tpot:25`. */
function sloText(slo) {
  return Object.entries(slo)
    .map(([metric, {limit, level}]) => `${metric}:${plainNumber(1000 * limit)}${level === null ? "" : `@p${level}`}`)
    .join(",");
}

/** A number as people type it. */
function plainNumber(value) {
  return String(Number(value.toPrecision(12)));
}

/** Options that differ from the defaults, as pairs of a name and a value. */
function optionsOf(question, planned) {
  const pairs = [];
  const add = (name, value, isUsual) => {
    if (!isUsual) pairs.push([name, value]);
  };
  add("quantization", question.quantization, question.quantization === "native");
  add("kv_cache_dtype", question.kv, question.kv === "as quantization");
  const {tp} = question;
  add("tp", tp, tp === null);
  for (const name of ["pp", "ep", "dp"]) add(name, question[name], question[name] === 1);
  const perReplica = planned === null ? null : planned.tp * planned.pp * planned.dp;
  add("num_gpus", perReplica === null ? null : perReplica * question.replicas, question.replicas === 1 || !perReplica);
  add("isl", question.isl, false);
  add("osl", question.osl, false);
  add("prefix", question.prefix, question.prefix === 0);
  add("cache_hit", question.cacheHit, question.cacheHit === null);
  add(question.load, question.amount, question.load === "batch" && question.amount === 1);
  add("engine", question.engine, question.engine === "generic");
  add("basis", question.basis, question.basis === "calibrated");
  add("gpu_price", question.price, question.price === null);
  return pairs;
}

/** The case as a command of the shell. */
export function commandLine(question, planned = null) {
  const short = {quantization: "-q", concurrency: "-c"};
  const words = optionsOf(question, planned).map(([name, value]) => {
    const flag = short[name] ?? `--${name.replaceAll("_", "-")}`;
    return `${flag} ${typeof value === "number" ? plainNumber(value) : quoted(value)}`;
  });
  if (question.network > 0) words.push(`--network ${plainNumber(1000 * question.network)}ms`);
  const slo = sloText(question.slo);
  if (slo) words.push(`--slo ${slo}`);
  const gpu = question.ownGpu?.name === question.gpu ? ownFile(question.ownGpu) : question.gpu;
  return ["roofline predict", `-m ${quoted(question.model)}`, `-g ${quoted(gpu)}`, ...words].join(" ");
}

/** A word of the shell. */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The case as a call of Python. */
export function pythonLine(question, planned = null) {
  const words = optionsOf(question, planned).map(([name, value]) => {
    const text = typeof value === "number" ? plainNumber(value) : JSON.stringify(value);
    return `${name}=${text}`;
  });
  if (question.network > 0) words.push(`network=${plainNumber(question.network)}`);
  const slo = sloText(question.slo);
  if (slo) words.push(`slo="${slo}"`);
  const gpu = question.ownGpu?.name === question.gpu ? ownFile(question.ownGpu) : question.gpu;
  return `rl.predict(${[JSON.stringify(question.model), JSON.stringify(gpu), ...words].join(", ")})`;
}
