// Changes of a tool: what they are called, and the lines that differ.

import { make, visible } from "../elements.js";
import { writtenLines } from "../json_text.js";
import { badge, number } from "../parts.js";
import { MAX_LINES, aligned, differences } from "./differences.js";

export const CHANGES = {
  added: ["new", "not there before"],
  removed: ["bad", "no longer there"],
  compatible: ["plain", "the same arguments are valid; a text differs"],
  widened: ["good", "what was valid still is, and more may be"],
  narrowed: ["fair", "some of what was valid may no longer be"],
  changed: ["kept", "neither schema is proved to contain the other"],
  unchanged: ["plain", "nothing changed"],
};

export function changeBadge(change) {
  const [tone, meaning] = CHANGES[change];
  return make("span", { title: meaning }, badge(change, tone));
}

/** The heading of a change, with further badges. */
export function changeTitle(tool, change, ...badges) {
  return make("h2.with-badge", make("span.mono", tool), " ", changeBadge(change), badges);
}

/** The lines in which two definitions of a tool differ; null is no tool. `wholeText` says what shows all. */
export function changeLines(tool, before, after, wholeText = "") {
  const lines = differences(textOf(before), textOf(after));
  const isCut = lines.some((line) => line.kind === "not-compared");
  return [
    isCut && make("p.fair-note", `Of what differs, only the first ${number(MAX_LINES)} lines are compared here.`, wholeText && ` ${wholeText}`),
    make("div.diff", { role: "region", "aria-label": `Changes of ${tool}`, tabindex: "0" }, make("ol", lines.map((line) => (
      make("li", { class: line.kind }, sign(line), make("code", line.text))
    )))),
  ];
}

/** Two texts as one, with the words that were taken out and those that were put in; null if they are too long. */
export function changedWords(before, after) {
  const [old, current] = [before, after].map((text) => visible(text).split(/(\s+)/));
  if (Math.max(old.length, current.length) > MAX_LINES) return null;
  const marks = { removed: "del", added: "ins" };
  const runs = runsOf(aligned(old, current));
  return make("p.description", runs.map(({ kind, text }) => (marks[kind] ? make(marks[kind], text) : text)));
}

/** Neighbours of one kind as one. */
function runsOf(words) {
  const runs = [];
  for (const { kind, text } of words) {
    if (runs.at(-1)?.kind === kind) runs.at(-1).text += text;
    else runs.push({ kind, text });
  }
  return runs;
}

/** The sign of a line that differs; a screen reader says the word. */
function sign(line) {
  const isSaid = line.kind === "added" || line.kind === "removed";
  return make("span.sign", make("span", { "aria-hidden": "true" }, line.sign), isSaid && make("span.hidden", `${line.kind} `));
}

function textOf(definition) {
  if (!definition) return [];
  return writtenLines(definition).map((line) => (
    visible(`${"  ".repeat(line.depth)}${line.key === null ? "" : `${JSON.stringify(line.key)}: `}${line.text}`)
  ));
}
