// A schema line by line, with what becomes of each keyword beside the line that it stands on.

import { make, visible } from "../elements.js";
import { child, writtenLines } from "../json_text.js";
import { badge, count } from "../parts.js";

const TONES = { exact: "good", narrowed: "fair", guarded: "kept", annotation: "plain", refused: "bad" };
const MEANINGS = {
  exact: "the mask admits just what the keyword admits",
  narrowed: "the mask admits a part of what the keyword admits",
  guarded: "a guard beside the grammar enforces the keyword",
  annotation: "the keyword has no force",
  refused: "the keyword cannot be enforced",
};
const MAX_LINES = 2000;

/** A schema with the entries of its report. Entries in documents, which are elsewhere, come below. */
export function schemaView(schema, entries) {
  const lines = writtenLines(schema);
  const verdicts = new Map();
  const pointers = new Set(lines.map((line) => line.pointer));
  const elsewhere = [];
  for (const entry of entries) {
    const place = entry.keyword ? child(entry.pointer, entry.keyword) : entry.pointer;
    const found = [place, entry.pointer].find((pointer) => pointers.has(pointer));
    if (found === undefined) elsewhere.push(entry);
    else verdicts.set(found, [...(verdicts.get(found) ?? []), entry]);
  }
  return [
    make(
      "div.schema",
      { role: "region", "aria-label": "Schema, with the verdict on each keyword", tabindex: "0" },
      make("ol", lines.slice(0, MAX_LINES).map((line) => schemaLine(line, verdicts.get(line.pointer) ?? []))),
    ),
    lines.length > MAX_LINES && make("p.soft", `The first ${MAX_LINES} of ${count(lines.length, "line")}.`),
    elsewhere.length > 0 && documentEntries(elsewhere),
  ];
}

/** How many keywords have each verdict; null entries did not fit into the answer. */
export function tally(entries) {
  if (entries === null) return "not told: too many";
  const counts = new Map();
  for (const { verdict } of entries) counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
  return make("span.tally", Object.keys(TONES).filter((each) => counts.has(each)).map((each) => (
    make("span", { title: MEANINGS[each] }, badge(`${counts.get(each)} ${each}`, TONES[each]))
  )));
}

function schemaLine(line, entries) {
  return make(
    "li",
    { class: worst(entries) },
    make(
      "code",
      { style: { "--depth": line.depth } },
      line.key !== null && [make("span.key", visible(JSON.stringify(line.key))), ": "],
      make("span.value", visible(line.text)),
    ),
    entries.length > 0 && make("span.verdicts", entries.map(verdictOf)),
    entries.filter((entry) => entry.note).map((entry) => (
      make("p.note", { style: { "--depth": line.depth } }, visible(entry.note))
    )),
  );
}

function verdictOf(entry) {
  const word = entry.verdict === "annotation" && !entry.note ? "no force" : entry.verdict;
  return make(`span.verdict.${TONES[entry.verdict]}`, { title: MEANINGS[entry.verdict] }, word);
}

/** The tone of a line is that of the verdict that is furthest from exact. */
function worst(entries) {
  const order = ["refused", "guarded", "narrowed", "exact", "annotation"];
  const found = order.find((verdict) => entries.some((entry) => entry.verdict === verdict));
  return found ? TONES[found] : "";
}

function documentEntries(entries) {
  return make("section", make("h3", "In documents that the schema refers to"), make("ul.faults", entries.map((entry) => make(
    "li",
    make("p", make("code", visible(entry.pointer)), " ", make("code", visible(entry.keyword)), " ", verdictOf(entry)),
    entry.note && make("p.soft", visible(entry.note)),
  ))));
}
