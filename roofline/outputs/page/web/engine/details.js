// Why: the kernels of an answer, their equations with numbers, and what moves it most.

import {LABELS} from "./programs.js";
import {answer} from "./answer.js";
import {caseOf, meansOf} from "./case.js";
import {quantity} from "./figures.js";
import {boundsOf, passesOf} from "./passes.js";

const BOUND_NAMES = ["compute", "memory", "exponentials", "link", "latency"];
const STEP = 1e-4; // relative change of an input, to each side

/** Kernels, roofs and sensitivities of a question; empty where it has no answer. */
export function details(contents, question) {
  const found = answer(contents, question);
  if (found.refusal) return {kernels: [], roofs: [], sensitivities: []};
  const asked = caseOf(contents, question);
  const means = meansOf(asked);
  const passes = passesOf(asked.e, asked.w, means);
  const kernels = rowsOf("prefill", passes.prefill);
  if (question.osl > 1) kernels.push(...rowsOf("decode", passes.decode));
  return {kernels, roofs: roofRows(kernels, asked.gpu), sensitivities: sensitivitiesOf(contents, asked, found)};
}

/** Rows of the kernels of a pass, those of the host last. */
function rowsOf(name, pass) {
  const rows = [];
  for (let at = 0; at < pass.kernels.length; at += 4) {
    const [count, terms, shape, layer] = pass.kernels.slice(at, at + 4);
    rows.push(terms.link ? rowOfLink(name, count, terms, shape, layer) : rowOfKernel(name, count, terms, shape, layer));
  }
  const hosts = [
    ["network", pass.network, "network"],
    ["request", pass.request, ""],
    ["host, launches", pass.waiting, ""],
    [pass.hostName, pass.host, ""],
  ];
  for (const [kernel, time, part] of hosts) {
    if (!time) continue;
    rows.push({
      pass: name,
      name: kernel,
      kind: "host",
      label: part || LABELS.host[0],
      dtype: "",
      count: 1,
      flop: 0,
      nbytes: 0,
      linkBytes: 0,
      time,
      total: time,
      bound: "latency",
      equation: `time of the host = ${quantity(time, "s")}`,
    });
  }
  const all = boundsOf(pass).reduce((sum, time) => sum + time, 0);
  for (const row of rows) row.share = row.total / all;
  return rows;
}

function common(name, count, terms, [kernel], layer) {
  return {
    pass: name,
    name: kernel.replace(/\{(\w+)\}/g, (_, field) => layer?.[field] ?? ""),
    count,
    time: terms[0],
    total: count * terms[0],
    bound: largestOf(terms),
  };
}

/** The largest term of a kernel. */
function largestOf(terms) {
  const times = [terms[1], terms[2], terms[4], terms[5], terms[3]];
  return BOUND_NAMES[times.indexOf(Math.max(...times))];
}

function rowOfKernel(name, count, terms, shape, layer) {
  const [flop, weights, kv, activations, serial] = terms.work;
  const {roof} = terms;
  const [label, isByPart] = LABELS[roof.kind];
  return {
    ...common(name, count, terms, shape, layer),
    kind: roof.kind,
    label: isByPart && shape[4] ? shape[4] : label,
    dtype: roof.dtype,
    flop,
    nbytes: weights + kv + activations + serial,
    linkBytes: 0,
    peak: roof.peak,
    bandwidth: roof.bandwidth,
    equation: `${equationOf(terms)}${timesOf(count)}`,
  };
}

function rowOfLink(name, count, terms, shape, layer) {
  const {kind, sent} = terms.link;
  const [rate, least] = terms.slice(9);
  const text =
    terms[3] === 0
      ? `${figure(least * sent)}/${figure(rate)}`
      : `${quantity(terms[3], "s")} + ${figure(sent)} B over ${quantity(rate, "B/s")}: ${quantity(terms[5], "s")}`;
  return {
    ...common(name, count, terms, shape, layer),
    kind,
    label: LABELS[kind][0],
    dtype: "",
    flop: 0,
    nbytes: 0,
    linkBytes: sent,
    equation: `${text} = ${quantity(terms[0], "s")}${timesOf(count)}`,
  };
}

function timesOf(count) {
  return count === 1 ? "" : `, ${Number(count.toPrecision(3))} times`;
}

/** The one equation with the numbers of a kernel. */
function equationOf(terms) {
  const [flop, weights, kv, activations, serial, exponentials, depth, serialDepth, items] = terms.work;
  const {roof} = terms;
  const total = quantity(terms[0], "s");
  if (roof.order === 0) {
    const all = weights + kv + activations + serial;
    return `max(${figure(flop)}/${figure(roof.peak)}, ${figure(all)}/${figure(roof.bandwidth)}) = ${total}`;
  }
  let compute = `${figure(flop)}/(${figure(roof.eta_c)} x ${figure(roof.peak)})`;
  if (roof.kappa) compute += ` + ${quantity(roof.kappa, "s")} x ${figure(depth)}`;
  const memory = `${figure(weights + kv + activations)}/(${figure(roof.eta_m)} x ${figure(roof.bandwidth)})`;
  const parts = [quantity(roof.t0, "s"), `|| ${compute} , ${memory} ||_${roof.order}`];
  if (exponentials) parts.push(`${figure(exponentials)}/(${figure(roof.eta_x)} x ${figure(roof.exp_rate)})`);
  if (serial) parts.push(`${figure(serial)}/(${figure(roof.eta_s)} x ${figure(roof.bandwidth)})`);
  if (roof.kappa_s && serialDepth) parts.push(`${quantity(roof.kappa_s, "s")} x ${figure(serialDepth)}`);
  if (roof.eps && items) parts.push(`${quantity(roof.eps, "s")} x ${figure(items)}`);
  return `${parts.join(" + ")} = ${total}`;
}

/** Three significant digits. */
function figure(value) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  return value >= 1e6 || value < 1e-3
    ? value.toExponential(2).replace(/\.?0+e/, "e")
    : String(Number(value.toPrecision(3)));
}

/** Roofs of the dtypes at which kernels multiply. */
function roofRows(kernels, gpu) {
  const found = new Map();
  for (const {dtype, peak} of kernels) {
    if (peak) found.set(peak, {dtype, peak, bandwidth: gpu.bandwidth});
  }
  return [...found.values()];
}

// What moves an answer most: elasticities, by small changes to both sides.

const INPUTS = [
  ["bandwidth", "HBM bandwidth", changedGpu("bandwidth", (gpu, by) => ({bandwidth: by * gpu.bandwidth}))],
  ["peak", "tensor-core peak", changedGpu("peak", (gpu, by) => ({peaks: mapped(gpu.peaks, by)}))],
  ["link", "link between GPUs", changedGpu("link", (gpu, by) => ({numbers: linked(gpu.numbers, by)}))],
  ["isl", "prompt length", (asked, by) => ({question: {...asked.question, isl: by * asked.question.isl}})],
  ["osl", "answer length", (asked, by) => ({question: {...asked.question, osl: by * asked.question.osl}})],
  ["amount", "load", (asked, by) => ({question: {...asked.question, amount: by * asked.question.amount}})],
];

function mapped(record, by) {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, by * value]));
}

function linked(numbers, by) {
  return {...numbers, link: by * numbers.link, peer: by * numbers.peer};
}

/** A change of some figures of the GPU. */
function changedGpu(name, change) {
  return (asked, by) => ({gpu: {...asked.gpu, ...change(asked.gpu, by)}, tag: `${name} ${by}`});
}

/** Change of TTFT and TPOT in per cent for one per cent of an input, the largest first. */
function sensitivitiesOf(contents, asked, found) {
  const times = ["ttft", "tpot"].filter((metric) => found.latencies[metric].mean !== null);
  const rows = [];
  for (const [name, text, change] of INPUTS) {
    if (name === "link" && found.plan.tp * found.plan.pp * found.plan.dp === 1) continue;
    const [low, high] = [1 - STEP, 1 + STEP].map((by) => meansAt(contents, asked, found.plan, change(asked, by)));
    if (low === null || high === null) continue;
    const row = {name, text, ttft: null, tpot: null};
    for (const metric of times) {
      row[metric] = Math.log(high[metric] / low[metric]) / Math.log((1 + STEP) / (1 - STEP));
    }
    rows.push(row);
  }
  const size = ({ttft, tpot}) => Math.max(Math.abs(ttft ?? 0), Math.abs(tpot ?? 0));
  return rows.sort((one, other) => size(other) - size(one));
}

/** Mean latencies of a changed case at the same plan; null where it has none. */
function meansAt(contents, asked, {tp, pp, ep, dp}, {question = asked.question, gpu = null}) {
  const changed = answer(contents, {...question, tp, pp, ep, dp, slo: {}}, gpu);
  if (changed.refusal) return null;
  return {ttft: changed.latencies.ttft.mean, tpot: changed.latencies.tpot.mean};
}
