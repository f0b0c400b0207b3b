// A grammar by its digest, `#/grammars/DIGEST`: what is it made of, and where is it cached?

import { get } from "../api.js";
import { make } from "../elements.js";
import { badge, bytes, count, duration, facts, heading, table } from "../parts.js";
import { link } from "../address.js";

const MAX_PARTS = 500;

export async function show(address, signal) {
  const found = await get(`v1/grammars/${encodeURIComponent(address.path[0] ?? "")}`, {}, signal);
  const total = found.parts.reduce((sum, part) => sum + (part.bytes ?? 0), 0);
  return [
    heading("Grammar", "What is it made of, and where is it cached?"),
    facts([
      ["Digest", make("code", found.digest)],
      ["Parts", count(found.parts.length, "part")],
      ["In memory", bytes(total)],
      found.syntax && ["Syntax", found.syntax],
      found.tool_choice && ["Tool choice", found.tool_choice],
    ].filter(Boolean)),
    make("section", table("Parts of the grammar", [
      { title: "Part", cell: (row) => make("span.mono", row.name ?? row.kind) },
      { title: "Unit", cell: (row) => row.digest && make("a", { href: link(["grammars", row.digest]) }, make("code", row.digest.slice(0, 12))) },
      { title: "Size", kind: "number", cell: (row) => bytes(row.bytes) },
      { title: "Compile time", kind: "number", cell: (row) => duration(row.compile_ms) },
      { title: "Cached in", cell: (row) => [
        row.in_memory ? badge("memory", "good") : badge("not in memory"), " ", row.in_store && badge("store", "new"),
      ] },
    ], found.parts.slice(0, MAX_PARTS))),
    found.parts.length > MAX_PARTS && make("p.soft", `The first ${MAX_PARTS} of ${count(found.parts.length, "part")}.`),
    found.text && make(
      "section",
      make("h2", "Rules"),
      found.has_guards && make("p.soft", "Guards beside these rules enforce what no context-free rule can."),
      make("div.scroll.rules", { role: "region", "aria-label": "Rules", tabindex: "0" }, make("pre", found.text)),
      found.is_cut && make("p.soft", "The text is cut here: it is longer."),
    ),
  ];
}
