// What the check of a toolset found, as elements: verdicts on its tools, or faults at their lines.

import { make, visible } from "../elements.js";
import { bytes, count, duration, table } from "../parts.js";
import { changeBadge } from "./changes.js";
import { tally } from "./schema_view.js";

const MAX_WARNINGS = 50;
const MAX_TOOLS = 100;
const MAX_NAMES = 10;
const MAX_FAULTS = 100;

/** The verdicts, and what registering would change; `replaced` is the name of a toolset that it would replace. */
export function verdicts(found, replaced) {
  const named = (change) => Object.keys(found.changes).filter((name) => found.changes[name] === change);
  const removed = named("removed");
  const changed = Object.keys(found.changes).length - named("unchanged").length - removed.length;
  return [
    make("p.verdict-line.good", make("strong", "Every keyword can be enforced."), ` ${count(found.tools.length, "tool")}, ${changed || "none"} of them new or changed.`, removed.length > 0 && removalOf(removed)),
    replaced && make("p.fair-note", `There is a toolset ${replaced} already, at revision ${found.current.revision}: this replaces it.`),
    found.warnings.length > 0 && warningList(found.warnings),
    table("Tools that were checked", [
      { title: "Tool", cell: (row) => make("span.mono", visible(row.name)) },
      { title: "Change", cell: (row) => changeBadge(found.changes[row.name]) },
      { title: "Keywords", cell: (row) => tally(row.entries) },
      { title: "Grammar", kind: "number", cell: (row) => [bytes(row.grammar_bytes), make("div.soft", duration(row.compile_ms))] },
    ], found.tools.slice(0, MAX_TOOLS)),
    found.tools.length > MAX_TOOLS && make("p.soft", `The first ${MAX_TOOLS} of ${count(found.tools.length, "tool")}.`),
  ];
}

function removalOf(names) {
  const more = names.length > MAX_NAMES ? " and others" : "";
  return ` ${count(names.length, "tool")} removed: ${visible(names.slice(0, MAX_NAMES).join(", "))}${more}.`;
}

function warningList(warnings) {
  const items = warnings.slice(0, MAX_WARNINGS).map((warning) => make(
    "li",
    make("p", make("strong", visible(warning.tool)), " ", make("code", visible(`${warning.pointer}/${warning.keyword}`))),
    make("p.soft", visible(warning.note)),
  ));
  return make("div.warnings", make("h3", count(warnings.length, "warning")), make("ul.faults", items));
}

/** The faults of `text`, sorted by line, each with its line; `goTo` is called with the line that is clicked. */
export function faultList(faults, text, goTo) {
  const lines = text.split("\n");
  return [
    make("p.verdict-line.bad", make("strong", "This cannot be registered."), ` ${count(faults.length, "fault")}.`),
    make("ul.refusals", faults.slice(0, MAX_FAULTS).map((fault) => make(
      "li",
      make("button.line-link", { type: "button", onclick: () => goTo(fault.line) },
        make("span.line-number", `Line ${fault.line}`), make("code", visible((lines[fault.line - 1] ?? "").trim().slice(0, 120)))),
      make("p", make("strong", visible(fault.title)), ": ", visible(fault.reason)),
      fault.suggestion && make("p.soft", visible(fault.suggestion)),
    ))),
  ];
}
