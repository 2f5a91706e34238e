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

/** Rows of values as CSV (RFC 4180). A text that a spreadsheet would read as a formula is preceded by an apostrophe. */
export function csvText(columns, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) {
      return "";
    }
    if (typeof value === "number") {
      return Number.isFinite(value) ? String(value) : "";
    }
    const text = /^[=+\-@\t]/.test(String(value)) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
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

/** A chart as an SVG text that stands alone, in light colours, with its title. */
function standaloneSvg(svg, title, subtitle) {
  const width = Number(svg.getAttribute("width"));
  const height = Number(svg.getAttribute("height"));
  const top = 52;
  const copy = svg.cloneNode(true);
  const stage = make("div", {class: "stage", "data-theme": "light"}, copy);
  document.body.append(stage);
  for (const element of copy.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    for (const name of INLINED) {
      const value = style.getPropertyValue(name);
      if (value && !(name.startsWith("fill") && element.hasAttribute(name) && value.startsWith("url"))) {
        element.setAttribute(name, value);
      }
    }
    element.removeAttribute("class");
  }
  const {color, backgroundColor, fontFamily} = getComputedStyle(stage);
  stage.remove();
  const heading = (text, y, size, weight) =>
    drawn("text", {x: 12, y, "font-size": size, "font-weight": weight, "font-family": fontFamily, fill: color}, text);
  const body = drawn("g", {transform: `translate(0 ${top})`});
  body.append(...copy.childNodes);
  const whole = drawn(
    "svg",
    {width, height: top + height, viewBox: `0 0 ${width} ${top + height}`, "font-family": fontFamily},
    drawn("title", {}, `${title}: ${subtitle}`),
    drawn("rect", {width, height: top + height, fill: backgroundColor}),
    heading(title, 24, 15, 600),
    heading(subtitle, 42, 11, 400),
    body,
  );
  setAttributes(whole, {xmlns: "http://www.w3.org/2000/svg"});
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
  canvas.toBlob((blob) => blob && saveBlob(`${name}.png`, blob), "image/png");
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

/** A line of code with a button that copies it. */
export function codeLine(label, say) {
  const code = make("code", {});
  const copy = button("Copy", () => {}, {"aria-label": `Copy: ${label}`});
  bindCopy(copy, () => code.textContent, say);
  const box = make(
    "div",
    {class: "code"},
    make("p", {class: "code-label"}, label),
    make("pre", {tabindex: 0}, code),
    copy,
  );
  return {
    box,
    show: (text) => {
      code.textContent = text;
    },
  };
}
