/** What can be taken from the page: CSV, pictures, copied texts. */

import {button, drawn, make, setAttributes} from "./dom.js";

const INLINED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-opacity",
  "stroke-linejoin",
  "opacity",
  "font-size",
  "font-weight",
  "font-family",
  "text-anchor",
  "paint-order",
];
const PIXELS = 2;
const EDGE = 16;
const HEADING = 66;

/** A value of CSV. A text that a spreadsheet would read as a formula is preceded by an apostrophe. */
function csvCell(value) {
  if (value === null || value === undefined) {
    return "";
  }
  if (typeof value === "number") {
    return Number.isFinite(value) ? String(value) : "";
  }
  const text = /^[=+\-@\t]/.test(String(value)) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** Rows of values as CSV (RFC 4180). */
function csvText(columns, rows) {
  return [columns, ...rows].map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

/** Hands a file to the browser's downloads. */
function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = make("a", {href: address, download: name, hidden: true});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Saves rows as a CSV file. */
export function saveCsv(name, columns, rows) {
  saveBlob(`${name}.csv`, new Blob([csvText(columns, rows)], {type: "text/csv;charset=utf-8"}));
}

/** A copy of a picture that looks the same without the style of the page, in light colours; and these colours. */
function styledCopy(svg) {
  const copy = svg.cloneNode(true);
  const stage = make("div", {class: "stage", "data-theme": "light"}, copy);
  document.body.append(stage);
  const styles = [...copy.querySelectorAll("*")].map((element) => {
    const style = getComputedStyle(element);
    return [element, INLINED.map((name) => [name, style.getPropertyValue(name)]).filter(([, value]) => value !== "")];
  });
  const {color, backgroundColor, fontFamily} = getComputedStyle(stage);
  stage.remove();
  for (const [element, values] of styles) {
    setAttributes(element, {...Object.fromEntries(values), class: null});
  }
  return {copy, color, backgroundColor, fontFamily};
}

/** A chart as an SVG text that stands alone, with its title. */
function standaloneSvg(svg, title, subtitle) {
  const {copy, color, backgroundColor, fontFamily} = styledCopy(svg);
  const width = Number(svg.getAttribute("width")) + 2 * EDGE;
  const height = Number(svg.getAttribute("height")) + HEADING + EDGE;
  const body = drawn("g", {transform: `translate(${EDGE} ${HEADING})`});
  body.append(...copy.childNodes);
  const whole = drawn(
    "svg",
    {width, height, viewBox: `0 0 ${width} ${height}`, "font-family": fontFamily},
    drawn("title", {}, `${title}: ${subtitle}`),
    drawn("rect", {width, height, fill: backgroundColor}),
    drawn("text", {x: EDGE, y: 30, "font-size": 15, "font-weight": 600, fill: color}, title),
    drawn("text", {x: EDGE, y: 49, "font-size": 12, fill: color}, subtitle),
    body,
  );
  return new XMLSerializer().serializeToString(whole);
}

/** Saves a chart as SVG. */
export function saveSvg(name, svg, title, subtitle) {
  saveBlob(`${name}.svg`, new Blob([standaloneSvg(svg, title, subtitle)], {type: "image/svg+xml;charset=utf-8"}));
}

/** Saves a chart as PNG, at twice its size. */
export async function savePng(name, svg, title, subtitle) {
  const text = standaloneSvg(svg, title, subtitle);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = setAttributes(document.createElement("canvas"), {
    width: image.naturalWidth * PIXELS,
    height: image.naturalHeight * PIXELS,
  });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const letters = atob(canvas.toDataURL("image/png").split(",")[1]); // toBlob may wait for seconds until all is idle
  saveBlob(`${name}.png`, new Blob([Uint8Array.from(letters, (letter) => letter.charCodeAt(0))], {type: "image/png"}));
}

/** Copies a text; without the clipboard, which some browsers refuse to files, by a selection. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", {class: "unseen", "aria-hidden": "true"}, text);
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    return isCopied;
  }
}

/** Lets a button copy a text, and say that it did. */
export function bindCopy(element, text, say) {
  const words = element.textContent;
  element.addEventListener("click", async () => {
    const isCopied = await copied(text());
    element.textContent = isCopied ? "Copied" : "Press Ctrl+C";
    say(isCopied ? "Copied." : "Not copied: the browser refused.");
    setTimeout(() => {
      element.textContent = words;
    }, 1600);
  });
}

/** Saves a text as a file. */
export function saveText(name, text) {
  saveBlob(name, new Blob([text], {type: "text/plain;charset=utf-8"}));
}

/** A text of code with a button that copies it, and any other ones. */
export function codeLine(label, say, ...others) {
  const code = make("code", {});
  const copy = button("Copy", () => {}, {"aria-label": `Copy: ${label}`});
  bindCopy(copy, () => code.textContent, say);
  const box = make(
    "div",
    {class: "code"},
    make("p", {class: "code-label"}, label),
    make("pre", {tabindex: 0}, code),
    copy,
    ...others,
  );
  return {
    box,
    show: (text) => {
      code.textContent = text;
    },
  };
}
