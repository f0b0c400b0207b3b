// The answer as a client gets it: text, and calls with their arguments, while they are written.

import { make, visible } from "../elements.js";

/** A piece of an answer in which every character can be seen; a tab stays one. */
const shown = (piece) => piece.split("\t").map(visible).join("\t");

export function answerView() {
  const element = make("div.answer", { "aria-busy": "true" });
  let text = null;
  const calls = new Map();

  function addText(piece) {
    text ??= element.appendChild(make("p.text"));
    text.append(shown(piece));
  }

  function addCall({ index, function: called, custom }) {
    const { name, arguments: more, input } = called ?? custom;
    if (!calls.has(index)) {
      const content = make("span.arguments");
      element.append(make("pre", make("code", make("strong", name ?? ""), "(", content, ")")));
      calls.set(index, content);
      text = null;
    }
    calls.get(index).append(shown(more ?? input ?? ""));
  }

  return {
    element,
    add({ delta }) {
      if (delta.content) addText(delta.content);
      for (const call of delta.tool_calls ?? []) addCall(call);
    },
    end() {
      element.removeAttribute("aria-busy");
    },
  };
}
