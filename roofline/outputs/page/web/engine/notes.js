// Notes on an answer: assumptions, stand-ins and limits, in the words and the order of `predict`.

import {ANSWERS, LABELS} from "./programs.js";
import {isRough, nameOf} from "./case.js";
import {quantity} from "./figures.js";

const PROMPTS_PER_USER = 10; // of the usual benchmark

/**
 * Notes on an answer.
 * @param asked of `caseOf`.
 * @param domain of `domainOf`.
 * @param means of `meansOf`.
 * @param passes whose kernels it sums.
 */
export function notesOf(asked, {domain, exceeded}, means, passes) {
  const {model, gpu, formats, plan, w, question} = asked;
  const isTimed = question.basis !== "ideal";
  const notes = [...model.cautions, ...gpu.cautions, ...formats.notes];
  if (question.tp === null && w.load !== "batch") {
    notes.push(`tp = ${plan.tp}: chosen for the load, and for the SLO where the number of GPUs is given`);
  }
  if (isTimed && gpu.basis === "generic") {
    notes.push(
      `${gpu.name}: no kernels of its generation were timed; constants are medians of others, the range is wide`,
    );
  }
  if (isTimed && gpu.basis === "served") notes.push(gpu.servedNote);
  notes.push(...exceeded, ...linkNotes(asked));
  if (isTimed && gpu.numbers.exp_rate === null) {
    notes.push(`${gpu.name}: no special-function rate known; softmax exponentials count as free`);
  }
  if (isTimed) notes.push(...versionNotes(asked), ...standInNotes(asked));
  notes.push(...cacheNotes(asked));
  if (isTimed) notes.push(...assumedOf(asked, passes));
  if (domain) notes.push(domain.note);
  notes.push(...benchmarkNotes(asked, means));
  return notes;
}

/** Notes on links that leave the scale-up domain, or whose speed is uncertain. */
function* linkNotes({model, gpu, plan, question}) {
  const {tp, pp, dp} = plan;
  const ranks = Math.max(tp, model.moe ? tp * dp : 1);
  const isBridged = gpu.hasBridge && ranks > gpu.numbers.domain;
  if (question.basis !== "ideal" && (isBridged || (gpu.linkKind === "pcie" && tp * dp > 1))) {
    const beyond = isBridged ? ` beyond the ${gpu.numbers.domain}-GPU ${gpu.linkKind} bridge` : "";
    yield `${gpu.name}: collectives${beyond} run over PCIe; their time depends on the server and is uncertain`;
  }
  const others = gpu.otherNodes.length ? `; in other nodes: ${gpu.otherNodes.join(", ")}` : "";
  const node = `${gpu.node}-GPU ${gpu.nodeLink} domain`;
  if (ranks > gpu.node && gpu.isAlone) {
    yield `${gpu.name}: ${ranks} ranks use the network, as it has no scale-up link`;
  } else if (ranks > gpu.node) {
    yield `${gpu.name}: ${ranks} ranks exceed its ${node} and use the network${others}`;
  } else if (ranks > 1 && others) {
    yield `${gpu.name}: ${ranks} ranks of a node that joins ${gpu.node} GPUs by ${gpu.nodeLink}${others}`;
  }
  const crossings = Math.min(pp - 1, Math.floor(((pp - 1) * tp * dp) / gpu.node));
  if (crossings) yield `${gpu.name}: ${crossings} of ${pp - 1} pipeline hand-overs cross the network`;
}

/** Kinds of kernel that a model runs, with the keys of their calibration: of its weights; of its caches and states. */
function kindsOf({model, formats}) {
  const {schemes} = formats;
  const weights = [`gemm ${schemes.linear.key}`, `gemm ${schemes.attention.key}`];
  if (model.moe) weights.push(`moe ${schemes.experts.key}`);
  return {weights, caches: model.kinds};
}

/** Notes on kernels that this version of an engine runs more slowly than later ones. */
function versionNotes(asked) {
  const {engine, gpu, formats} = asked;
  const {weights, caches} = kindsOf(asked);
  const used = [...weights, ...caches.map((kind) => `${kind} ${formats.kv.key}`)];
  const isRun = (kind, dtype) =>
    used.some((each) => (dtype === null ? each.startsWith(`${kind} `) : each === `${kind} ${dtype}`));
  return engine.tunings
    .filter(([kind, dtype, generation]) => isRun(kind, dtype) && [null, gpu.generation].includes(generation))
    .map(([, , , note]) => `${engine.name}: ${note}`);
}

/** Notes on what replaces kernels that were not measured. */
function standInNotes(asked) {
  const {contents, gpu} = asked;
  if (gpu.standIns === null) return [];
  const notes = contents.raw.standIns[gpu.standIns];
  const {weights, caches} = kindsOf(asked);
  return [...new Set([...weights, ...caches])].filter((kind) => notes[kind]).map((kind) => notes[kind]);
}

/** Notes on a cache of prompts. */
function* cacheNotes({question, w}) {
  if (question.cacheHit === null) return;
  yield "memory of the cached prefixes is not counted; give cache_size to take it from the batch";
  if (w.hit !== null && w.batch > 1) {
    yield "a burst with a cache is the mean of one in which all prompts hit and one in which all miss";
  }
}

/** Kernels with assumed constants, where others were measured. */
function assumedOf({gpu, e}, passes) {
  if (isRough(gpu)) return [];
  const names = new Set();
  for (const {kernels} of passes) {
    const places = kernels.flatMap((_, at) => (at % 4 === 3 ? [at - 3] : []));
    const isOfLayer = (at) => kernels[at + 3] !== undefined; // others end a pass, but for minor ones
    for (const at of [...places.filter(isOfLayer), ...places.filter((each) => !isOfLayer(each))]) {
      const {roof, link} = kernels[at + 1];
      const kind = roof ? roof.kind : link.kind;
      const isMeasured = roof ? roof.isMeasured : e.links[kind].isMeasured;
      if (!isMeasured && !LABELS[kind][2]) names.add(roof ? `${roof.dtype} ${kind}` : kind);
    }
  }
  if (!names.size) return [];
  return [`assumed, not measured on ${gpu.generation}: ${[...names].join(", ")} (see its calibration file)`];
}

/** What a benchmark of as many users would report: they begin together, and its mean TTFT holds that start. */
function benchmarkNotes(asked, means) {
  const {e, w} = asked;
  const program = ANSWERS[`benchmark_${nameOf(asked)}`];
  if (!program || w.amount <= 1) return [];
  const prompts = Math.round(PROMPTS_PER_USER * w.amount);
  const time = quantity(program(e, w, means, prompts)[0], "s");
  const begin = `a benchmark of ${prompts} requests that all ${w.amount} users begin together`;
  return [`${begin} would report a mean TTFT of ${time} (\`num_prompts\` ${prompts})`];
}
