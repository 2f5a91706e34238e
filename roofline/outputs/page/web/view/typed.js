/** Values as people type them, in the notation of the command line. */

const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const SIZE = /^([+-]?(?:\d+\.?\d*|\.\d+))\s*([km]?)(?:\s*tok(?:en)?s?)?$/i;
const QUANTITY = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\S.*)?$/i;
const KIBI = 1024;
const PERIODS = {s: 1, sec: 1, min: 60, h: 3600, hour: 3600, d: 86400, day: 86400};
const DECIMAL_SIZES = {"": 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12, p: 1e15, e: 1e18};
const BINARY_SIZES = {ki: 1024, mi: 1024 ** 2, gi: 1024 ** 3, ti: 1024 ** 4};
const UNITS = {"FLOP/s": /^([kmgtpe]?)(?:flops?|ops?)(?:\/s)?$/i, "B/s": /^([kmgtpe]i?|)b\/s$/i, B: /^([kmgt]i?|)b$/i};
const AMBIGUOUS = /^[kKMGT]?(?:b|bit|bps|Bps|b\/s|bits)$/;
const LARGEST = 1e9;

/** What is wrong with a typed value, in words for the one who typed it. */
export class Typo extends Error {}

/** Refuses a blank, a comma, and what is far too long. */
function cleaned(text, example) {
  const trimmed = text.trim();
  if (trimmed === "") {
    throw new Typo(`Enter ${example}.`);
  }
  if (/^\d{1,3}(?:,\d{3})+$/.test(trimmed)) {
    throw new Typo(`Write ${trimmed.replace(/,/g, "")}, without commas.`);
  }
  if (/^\d*,\d+/.test(trimmed)) {
    throw new Typo(`Write ${trimmed.replace(",", ".")}, with a decimal point.`);
  }
  if (trimmed.length > 40) {
    throw new Typo(`Too long; enter ${example}.`);
  }
  return trimmed;
}

/** Refuses a number outside its bounds. */
function bounded(value, {least = 0, above = null, most = LARGEST}, example) {
  if (Number.isNaN(value)) {
    throw new Typo(`Enter ${example}.`);
  }
  if (above !== null && !(value > above)) {
    throw new Typo(`Must be greater than ${above}.`);
  }
  if (above === null && value < least) {
    throw new Typo(`Must be at least ${least}.`);
  }
  if (value > most) {
    throw new Typo(`Too large: at most ${most.toLocaleString("en-US")}.`);
  }
  return value;
}

/** A whole number such as 2000, 4k or 1.5k (k is 1024). */
export function typedSize(text, bounds, example = "a whole number such as 2000 or 4k") {
  const match = SIZE.exec(cleaned(text, example));
  if (match === null) {
    if (DECIMAL.test(text.trim())) {
      return bounded(whole(Number(text.trim()), example), bounds, example);
    }
    throw new Typo(`Not a number; enter ${example} (k is 1024).`);
  }
  const scale = {"": 1, k: KIBI, m: KIBI * KIBI}[match[2].toLowerCase()];
  return bounded(whole(Number(match[1]) * scale, example), bounds, example);
}

/** Refuses a number that is not whole; one that overflows is left to the bounds. */
function whole(value, example) {
  if (Number.isFinite(value) && !Number.isInteger(value)) {
    throw new Typo(`${value} is not whole; enter ${example}.`);
  }
  return value;
}

/** A number such as 0.5. */
export function typedNumber(text, bounds, example = "a number such as 2.5") {
  const trimmed = cleaned(text, example);
  if (!DECIMAL.test(trimmed)) {
    throw new Typo(`Not a number; enter ${example}.`);
  }
  return bounded(Number(trimmed), bounds, example);
}

/** A share [1] such as 80% or 0.8. */
export function typedShare(text, example = "a share such as 80% or 0.8") {
  const trimmed = cleaned(text, example);
  const isPercent = trimmed.endsWith("%");
  const number = isPercent ? trimmed.slice(0, -1).trim() : trimmed;
  if (!DECIMAL.test(number)) {
    throw new Typo(`Not a share; enter ${example}.`);
  }
  const share = Number(number) / (isPercent ? 100 : 1);
  if (!(share >= 0 && share <= 1)) {
    throw new Typo("Must be between 0 and 1, or 0% and 100%.");
  }
  return share;
}

/** Tokens of a prompt, or the share of it that a percentage names. */
export function typedPrefix(text, isl) {
  if (text.trim().endsWith("%")) {
    return Math.round(typedShare(text) * isl);
  }
  const prefix = typedSize(text, {least: 0}, "tokens such as 1000, or a share such as 80%");
  if (prefix > isl) {
    throw new Typo(`Must not exceed the prompt, ${isl} tokens.`);
  }
  return prefix;
}

/** A time [s] such as 300ms or 0.3s; a bare number is in ms. */
export function typedTime(text, bounds = {above: 0}, example = "a time such as 300 ms or 2 s") {
  const match = QUANTITY.exec(cleaned(text, example));
  const unit = match?.[2]?.toLowerCase() ?? "ms";
  const scale = {s: 1, ms: 1e-3, us: 1e-6, µs: 1e-6, μs: 1e-6, ns: 1e-9}[unit];
  if (match === null || scale === undefined) {
    throw new Typo(`Not a time; enter ${example} (a bare number is in ms).`);
  }
  const value = Number(match[1]) * scale;
  if (value > 1e6) {
    throw new Typo("Too long: at most 1,000,000 s.");
  }
  return bounded(value, bounds, example);
}

/** Requests per second such as 2.5, 1800/min or 100k/h (k is 1000). */
export function typedRate(text, example = "requests per second such as 2.5, or 1800/min") {
  const trimmed = cleaned(text, example);
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([km]?)\s*(?:\/\s*([a-z]+))?$/i.exec(trimmed);
  const period = match === null ? undefined : PERIODS[(match[3] ?? "s").toLowerCase()];
  if (period === undefined) {
    throw new Typo(`Not a rate; enter ${example}.`);
  }
  const value = (Number(match[1]) * {"": 1, k: 1e3, m: 1e6}[match[2].toLowerCase()]) / period;
  return bounded(value, {above: 0}, example);
}

/** An SI value with its unit, of FLOP/s, B/s or B: 989 TFLOP/s, 3.35 TB/s, 80 GB. */
export function typedQuantity(text, dimension, example) {
  const match = QUANTITY.exec(cleaned(text, example));
  if (match === null) {
    throw new Typo(`Not a number with a unit; enter ${example}.`);
  }
  if (match[2] === undefined) {
    throw new Typo(`Add the unit: ${example}.`);
  }
  const value = Number(match[1]) * unitSize(match[2].trim(), dimension, example);
  if (!(value > 0 && value < 1e24)) {
    throw new Typo("Must be positive and finite.");
  }
  return value;
}

/** SI size of a unit of this dimension; what may mean bits or bytes is refused. */
function unitSize(unit, dimension, example) {
  const bits = dimension === "B/s" ? /^([kMGT]?)bit\/s$/i.exec(unit) : null;
  if (bits !== null) {
    return DECIMAL_SIZES[bits[1].toLowerCase()] / 8;
  }
  if (AMBIGUOUS.test(unit)) {
    throw new Typo(`${unit} may mean bits or bytes; enter ${example}.`);
  }
  const prefix = UNITS[dimension].exec(unit)?.[1].toLowerCase();
  const size = DECIMAL_SIZES[prefix] ?? BINARY_SIZES[prefix];
  if (size === undefined) {
    throw new Typo(`${unit} is not a unit of ${dimension}; enter ${example}.`);
  }
  return size;
}
