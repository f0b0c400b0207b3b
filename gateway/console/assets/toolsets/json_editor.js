// A text field for JSON with numbered lines, of which some can be marked.

import { make } from "../elements.js";

const MAX_NUMBERED = 20_000;

/** The field as an element, its `area`, `text()`, `write(text)`, `mark(lines)` and `goTo(line)`; `onInput` is called on each change. */
export function jsonEditor({ id, text, placeholder, onInput }) {
  const gutter = make("div.gutter", { "aria-hidden": "true" });
  const area = make("textarea", { id, name: id, spellcheck: "false", wrap: "off", rows: "22", placeholder });
  area.value = text;
  area.addEventListener("input", onInput);
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });

  return {
    element: make("div.editor", gutter, area),
    area,
    text: () => area.value,
    write(written) {
      area.value = written;
      area.dispatchEvent(new Event("input"));
    },
    /** Number the lines; the marked ones have a colour. */
    mark(lines) {
      const marked = new Set(lines);
      const total = Math.min(area.value.split("\n").length, MAX_NUMBERED);
      gutter.replaceChildren(...Array.from({ length: total }, (_, index) => (
        make("span", { class: marked.has(index + 1) && "faulty" }, String(index + 1))
      )));
      gutter.scrollTop = area.scrollTop;
    },
    /** Select a line, and scroll to it. */
    goTo(line) {
      const lines = area.value.split("\n");
      const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
      area.focus();
      area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
      area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / lines.length));
    },
  };
}
