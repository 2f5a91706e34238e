/** Elements made without reading any text as HTML. */

const SVG = "http://www.w3.org/2000/svg";

/** The element of the page with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Sets attributes; null and false leave one out, true sets it empty. */
export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) {
      element.removeAttribute(name);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  return element;
}

/** A new HTML element; children are elements, or texts that stay texts. */
export function make(tag, attributes = {}, ...children) {
  const element = setAttributes(document.createElement(tag), attributes);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A new SVG element. */
export function drawn(tag, attributes = {}, ...children) {
  const element = setAttributes(document.createElementNS(SVG, tag), attributes);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A button with a text and what it does. */
export function button(text, action, attributes = {}) {
  const element = make("button", {type: "button", ...attributes}, text);
  element.addEventListener("click", action);
  return element;
}

/** An option of a select. */
export function option(value, text) {
  return make("option", {value}, text);
}

/** A function that runs once its calls have paused for a time [ms]. */
export function debounced(action, pause) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), pause);
  };
}

/** A table from its columns ({title, numeric}) and rows of texts. */
export function plainTable(caption, columns, rows) {
  const head = columns.map((column) =>
    make("th", {scope: "col", class: column.numeric ? "number" : null}, column.title),
  );
  const lines = rows.map((row) =>
    make(
      "tr",
      {},
      ...row.map((cell, index) => {
        const numeric = columns[index].numeric ? "number" : null;
        return index === 0 ? make("th", {scope: "row", class: numeric}, cell) : make("td", {class: numeric}, cell);
      }),
    ),
  );
  return make(
    "table",
    {},
    make("caption", {class: "unseen"}, caption),
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...lines),
  );
}

/** A box that scrolls sideways by itself, and by keyboard. */
export function scrollBox(label, ...children) {
  return make("div", {class: "scroll", role: "region", "aria-label": label, tabindex: 0}, ...children);
}

/** Runs steps of generators one after another, a few milliseconds at a time; a new run cancels the one before it. */
export function stepper(budget = 8) {
  const state = {queue: []};
  const work = (queue) => {
    const end = performance.now() + budget;
    const isMine = () => state.queue === queue && queue.length > 0;
    while (isMine() && performance.now() < end) {
      if (queue[0].next().done) {
        queue.shift();
      }
    }
    if (isMine()) {
      setTimeout(work, 0, queue);
    }
  };
  return (generators) => {
    state.queue = [...generators];
    setTimeout(work, 0, state.queue);
  };
}
