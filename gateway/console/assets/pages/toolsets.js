// The toolsets: what is registered?

import { get } from "../api.js";
import { make } from "../elements.js";
import { empty, heading, moment, number, table } from "../parts.js";
import { link } from "../place.js";

const PAGE_SIZE = 50;

export async function show(place, signal) {
  const after = place.query.after ?? null;
  const page = await get("v1/toolsets", { after, limit: PAGE_SIZE }, signal);
  const title = heading("Toolsets", "What may models call, and how is it enforced?");
  if (!page.toolsets.length) {
    return [title, empty("No toolset yet", "A toolset is a named set of tools. Register one, and requests name it.")];
  }
  return [
    title,
    table("Toolsets", [
      { title: "Name", cell: (row) => make("strong", row.name) },
      { title: "Tools", kind: "number", cell: (row) => number(row.num_tools) },
      { title: "Revision", kind: "number", cell: (row) => number(row.revision) },
      { title: "Changed", cell: (row) => moment(row.created_at) },
    ], page.toolsets),
    page.next && make("nav.pager", { "aria-label": "More toolsets" },
      make("a.button", { href: link(["toolsets"], { after: page.next }) }, "Next")),
  ];
}
