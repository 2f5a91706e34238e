// The domain of an answer: whether a case lies inside what was checked, and how far off answers are there.

import {ANSWERS, BEYOND, OUTSIDE, REGIONS, beyond_mixed, beyond_plain} from "./programs.js";
import {structureName} from "./case.js";

/**
 * The domain of a case.
 * @returns {object} domain: of its load, null for a burst; exceeded: notes on lengths beyond those that were timed or that
 *   the model takes; unchecked: all for which no range is stated.
 */
export function domainOf({model, e, w, question, engine}, means) {
  const reasons = [];
  let domain = null;
  if (means) {
    const name = structureName(e, w, engine.scheduler); // by which regions are told apart, whatever the basis
    const [region, ...fails] = ANSWERS[`outside_${name}`](e, w, means);
    reasons.push(...OUTSIDE[name].filter((_, at) => fails[at]));
    const errors = REGIONS[region] ? `; ${REGIONS[region]}` : "";
    const where = reasons.length ? `outside the validated range (${reasons.join(", ")})` : "inside the validated range";
    const left = reasons.length ? "; percentiles that contradict their mean are left out; compare with `simulate`" : "";
    domain = {inside: !reasons.length, reasons: [...reasons], note: `under load: ${where}${errors}${left}`, region};
  }
  const beyond = (w.hit === null ? beyond_plain : beyond_mixed)(e, w);
  const limits = BEYOND.map((text) => text.replace("{context}", model.maxContext).replace("{model}", model.name));
  const isAtLimit = question.basis === "ideal";
  const exceeded = limits.filter((_, at) => beyond[at] && (!isAtLimit || at === limits.length - 1));
  return {domain, unchecked: isAtLimit ? [] : [...reasons, ...exceeded], exceeded};
}
