// The list of toolsets, searched by name.

import { get } from "../api.js";
import { make } from "../elements.js";
import { count, empty, heading, moment, number, pager, searchField, table } from "../parts.js";
import { link } from "../address.js";

const PAGE_SIZE = 50;

export async function showList(address, signal) {
  const { search = "", after } = address.query;
  const page = await get("v1/toolsets", { search, after, limit: PAGE_SIZE }, signal);
  const register = make("a.button", { href: link(["toolsets", "+register"]) }, "Register a toolset");
  const head = heading("Toolsets", "What may models call, and how is it enforced?", register);
  if (!page.toolsets.length && !search && !after) {
    return [head, empty(
      "No toolset yet",
      "A toolset is a named set of tools. Register one here or with callgate tools apply, and requests name it.",
      make("a.button.quiet", { href: link(["playground"]) }, "Try an example first"),
    )];
  }
  const rows = page.toolsets.length ? listed(page.toolsets) : empty("Nothing found", search ? `No toolset has “${search}” in its name.` : "There are no further toolsets.");
  return [head, searchField("Search by name", search, ["toolsets"]), rows, pager(["toolsets"], address.query, page.next)];
}

function listed(toolsets) {
  return table(`${count(toolsets.length, "toolset")}`, [
    { title: "Name", cell: (row) => make("a.strong", { href: link(["toolsets", row.name]) }, row.name) },
    { title: "Tools", kind: "number", cell: (row) => number(row.num_tools) },
    { title: "Revision", kind: "number", cell: (row) => (
      make("a", { href: link(["toolsets", row.name, "revisions"]) }, number(row.revision))
    ) },
    { title: "Changed", cell: (row) => moment(row.created_at) },
  ], toolsets);
}
