// A planner's own GPU, described by a few figures.

import {Refused} from "./refusals.js";

/** Its record: of a generation that was never timed. */
export function ownGpu(contents, own) {
  const like = contents.raw.own;
  const {peak, bandwidth, memory: size, link} = own;
  for (const [name, value] of Object.entries({peak, bandwidth, memory: size})) {
    if (!(value > 0 && Number.isFinite(value))) throw new Refused("BadInput", `${name} of ${own.name} must be above 0`);
  }
  const isAlone = !(link > 0);
  const numbers = {...like.numbers, bandwidth, memory: size};
  Object.assign(numbers, isAlone ? {domain: 1, host_domain: 1} : {link, peer: link, host_link: link});
  const settings = ["max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization"];
  const runs = like.runs.map((run, place) => [
    ...run.slice(0, 3),
    ...settings.map((name, at) => settingOf(contents.raw.engines[place].byGpu[name], own, run[3 + at])),
  ]);
  return {
    ...like,
    runs,
    name: own.name,
    peaks: {bf16: peak},
    bandwidth,
    memory: size,
    numbers,
    isAlone,
    node: isAlone ? 1 : like.node,
    price: null,
  };
}

/** The default of an engine's setting on a planner's own GPU. */
function settingOf(rules, own, otherwise) {
  const holds = ([, least, others]) => own.memory >= least && !others.some((part) => own.name.includes(part));
  return rules ? rules.find(holds)[0] : otherwise;
}
