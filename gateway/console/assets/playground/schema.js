// The schema of the tool that is called, with the place that a token writes marked.

import { make, visible } from "../elements.js";
import { writtenLines } from "../json_text.js";
import { nameOf } from "./controls.js";

const ANSWER = Symbol("answer");

/** The schemas of some tools and of an answer; `mark(place)` shows the one that the place is in, and the place in it. */
export function schemaOf(tools, answerSchema) {
  const list = make("ol");
  const title = make("h3");
  const element = make("section.card.place", { "aria-label": "Schema" }, title, make("div.lines", { tabindex: "0" }, list));
  let shownTool = null;
  let lines = [];

  function showTool(name) {
    if (name === shownTool) return;
    const tool = tools.find((each) => nameOf(each) === name);
    show(name, tool && (tool.function?.parameters ?? tool.input_schema ?? tool.inputSchema ?? {}), make("code", name));
  }

  function show(name, schema, words) {
    shownTool = name;
    title.replaceChildren("Schema of ", words);
    lines = schema ? writtenLines(schema) : [];
    list.replaceChildren(...lines.map(({ key, text, depth }) => make("li", make(
      "code", { style: { "--depth": depth } }, key !== null && [make("span.key", visible(JSON.stringify(key))), ": "], visible(text),
    ))));
  }

  return {
    element,
    mark({ part, tool, schema }) {
      if (tool) showTool(tool);
      else if (part === "text" && answerSchema !== null && shownTool !== ANSWER) show(ANSWER, answerSchema, "the answer");
      element.hidden = shownTool === null;
      for (const line of list.querySelectorAll(".marked, .within")) line.classList.remove("marked", "within");
      const at = schema === null ? -1 : lines.findIndex((line) => line.pointer === schema);
      if (at < 0) return;
      const end = lines.findIndex((line, index) => index > at && line.depth <= lines[at].depth && line.pointer !== null);
      list.children[at].classList.add("marked");
      for (let index = at + 1; index < (end < 0 ? lines.length : end); index += 1) {
        if (lines[index].depth > lines[at].depth) list.children[index].classList.add("within");
      }
      const box = list.parentElement;
      box.scrollTop = list.children[at].offsetTop - box.clientHeight / 3;
    },
  };
}
