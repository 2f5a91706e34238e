// Numbers as people read them, as the command line writes them.

/** Prefixes of seconds, and what they stand for. */
export const TIMES = [
  ["", 1],
  ["m", 1e-3],
  ["u", 1e-6],
  ["n", 1e-9],
];
const AMOUNTS = [
  ["E", 1e18],
  ["P", 1e15],
  ["T", 1e12],
  ["G", 1e9],
  ["M", 1e6],
  ["k", 1e3],
  ["", 1],
];
const ALMOST = 0.9995; // of a unit is shown as one

/** Three significant digits, no exponent unless the number is tiny. */
export function rounded(value) {
  const near = Number(value.toPrecision(3));
  return Math.abs(near) >= 100 ? value.toFixed(0) : String(near);
}

/** The prefix or unit that suits a value, with its size. */
export function fitting(value, units) {
  return units.find(([, size]) => Math.abs(value) >= size * ALMOST) ?? units.at(-1);
}

/** An SI value with a fitting decimal prefix: 44.8 ms, 3.35 TB/s. */
export function quantity(value, unit) {
  if (value === 0) return `0 ${unit}`;
  const [prefix, size] = fitting(value, unit === "s" ? TIMES : AMOUNTS);
  return `${rounded(value / size)} ${prefix}${unit}`;
}
