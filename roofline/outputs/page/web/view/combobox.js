/** A text field that suggests names, by the pattern of an editable combobox with a list. */

import {make, setAttributes} from "./dom.js";

const MOST = 60;

/**
 * Turns an input into a combobox.
 *
 * @param {HTMLInputElement} input the field.
 * @param {object} options labelId: id of its label; entries(): [{name, hint, words}]; chosen(name): what happens when
 *   one is picked.
 */
export function combobox(input, {labelId, entries, chosen}) {
  const list = make("ul", {id: `${input.id}-list`, role: "listbox", class: "listbox", hidden: true});
  setAttributes(list, {"aria-labelledby": labelId});
  setAttributes(input, {
    role: "combobox",
    "aria-labelledby": labelId,
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": list.id,
    autocomplete: "off",
  });
  input.parentElement.append(list);
  let active = -1;
  let before = "";

  const close = () => {
    list.hidden = true;
    active = -1;
    setAttributes(input, {"aria-expanded": "false", "aria-activedescendant": null});
  };

  const highlight = (index) => {
    const items = [...list.children].filter((item) => item.getAttribute("role") === "option");
    active = items.length === 0 ? -1 : (index + items.length) % items.length;
    items.forEach((item, each) => item.setAttribute("aria-selected", String(each === active)));
    setAttributes(input, {"aria-activedescendant": active < 0 ? null : items[active].id});
    items[active]?.scrollIntoView({block: "nearest"});
  };

  const pick = (name) => {
    input.value = name;
    close();
    chosen(name);
  };

  const item = (entry, index) => {
    const line = make(
      "li",
      {id: `${list.id}-${index}`, role: "option", "aria-selected": "false"},
      make("span", {}, entry.name),
      make("span", {class: "hint"}, entry.hint),
    );
    line.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      pick(entry.name);
    });
    line.dataset.name = entry.name;
    return line;
  };

  const open = (query) => {
    const found = matching(entries(), query);
    const rest = found.length - MOST;
    const lines = found.slice(0, MOST).map(item);
    if (rest > 0) {
      lines.push(make("li", {class: "hint", role: "presentation"}, `${rest} more: type a part of the name`));
    }
    list.replaceChildren(...lines);
    list.hidden = found.length === 0;
    setAttributes(input, {"aria-expanded": String(found.length > 0), "aria-activedescendant": null});
    active = -1;
  };

  input.addEventListener("focus", () => {
    before = input.value;
    input.select();
  });
  input.addEventListener("click", () => list.hidden && open(""));
  input.addEventListener("input", () => open(input.value));
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) {
        open(input.value === before ? "" : input.value);
        const present = [...list.children].findIndex((line) => line.dataset.name === input.value);
        highlight(present < 0 ? 0 : present);
      } else {
        highlight(active < 0 && event.key === "ArrowUp" ? -1 : active + (event.key === "ArrowDown" ? 1 : -1));
      }
    } else if (event.key === "Enter" && !list.hidden) {
      event.preventDefault();
      const line = list.children[Math.max(active, 0)];
      if (line?.dataset.name) {
        pick(line.dataset.name);
      }
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      input.value = before;
      close();
      chosen(before);
    }
  });
}

/** Entries in which every word of a query occurs; names that begin with it first. */
function matching(entries, query) {
  const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries.filter((entry) => words.every((word) => entry.words.includes(word)));
  const rank = (entry) => (words.length > 0 && entry.name.toLowerCase().startsWith(words[0]) ? 0 : 1);
  return d3.sort(found, rank);
}
