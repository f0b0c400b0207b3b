// The revisions of a toolset, what one changed since another, and restoring one.

import { Problem, call, get } from "../api.js";
import { make } from "../elements.js";
import { empty, heading, moment, number, pager, problemBox, table } from "../parts.js";
import { go, link } from "../address.js";
import { CHANGES, changeBadge, changeLines, changeTitle } from "./changes.js";

const PAGE_SIZE = 50;
const MAX_SHOWN = 20;

export async function showRevisions(name, address, signal) {
  const path = `v1/toolsets/${encodeURIComponent(name)}`;
  if (address.query.of) return showChanges(name, path, address.query, signal);
  const { revisions, next, dropped_before: dropped, deleted } = await get(
    `${path}/revisions`, { before: address.query.before, limit: PAGE_SIZE }, signal,
  );
  const failure = make("div");
  const newest = address.query.before || deleted ? null : revisions[0]?.revision;
  return [
    heading(name, "What changed, and when?", !deleted && make("a.button.quiet", { href: link(["toolsets", name]) }, "Tools")),
    deleted && make("p.fair-note", "This toolset is deleted: requests that name it are refused. Restore a revision to bring it back."),
    failure,
    table("Revisions", [
      { title: "Revision", kind: "number", cell: (row) => (
        make("a.strong", { href: link(["toolsets", name], { revision: row.revision }) }, number(row.revision))
      ) },
      { title: "Tools", kind: "number", cell: (row) => number(row.num_tools) },
      { title: "Written", cell: (row) => moment(row.created_at) },
      { title: "Digest", cell: (row) => make("code", { title: row.digest }, row.digest.slice(0, 12)) },
      { title: "", cell: (row) => [
        make("a", { href: link(["toolsets", name, "revisions"], { of: row.revision }) }, "Changes"),
        row.revision !== newest && [" ", restoreButton(name, path, row.revision, failure)],
      ] },
    ], revisions),
    dropped && make("p.soft", `Revisions before ${dropped} were dropped as too old, but for those that requests still name.`),
    pager(["toolsets", name, "revisions"], address.query, next, "before"),
  ];
}

function restoreButton(name, path, revision, failure) {
  const restore = async (event) => {
    event.target.disabled = true;
    try {
      await call("POST", `${path}/revisions/${revision}/restore`);
      go(["toolsets", name]);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      failure.replaceChildren(problemBox(error));
      event.target.disabled = false;
    }
  };
  return make("button.text", { type: "button", onclick: restore, "aria-label": `Restore revision ${revision}` }, "Restore");
}

async function showChanges(name, path, query, signal) {
  const found = await get(`${path}/revisions/${query.of}/changes`, { since: query.since }, signal);
  const names = Object.keys(found.changes);
  const all = { ...found.changes };
  const head = heading(
    name,
    found.since ? `What revision ${found.revision} changed since revision ${found.since}` : `Revision ${found.revision}, the first that is kept`,
    make("a.button.quiet", { href: link(["toolsets", name, "revisions"]) }, "All revisions"),
  );
  if (!names.length && !Object.keys(found.documents).length) {
    return [head, empty("Nothing changed", "Both revisions have the same tools.")];
  }
  const shown = await Promise.all(names.slice(0, MAX_SHOWN).map((tool) => (
    toolChange(path, tool, all[tool], found, signal)
  )));
  return [
    head,
    make("p.soft", Object.keys(CHANGES).flatMap((change) => {
      const total = names.filter((each) => all[each] === change).length;
      return total ? [`${number(total)} ${change}`] : [];
    }).join(", ")),
    shown,
    names.length > MAX_SHOWN && make("p.soft", `And ${number(names.length - MAX_SHOWN)} more: `, make("span", names.slice(MAX_SHOWN, 500).join(", "))),
    Object.entries(found.documents).map(([uri, change]) => (
      make("section", make("h2", make("code", uri), " ", changeBadge(change)))
    )),
  ];
}

async function toolChange(path, tool, change, { revision, since }, signal) {
  const at = `${path}/tools/${tool.split("/").map(encodeURIComponent).join("/")}`;
  const definition = (number) => get(at, { shape: "mcp", revision: number }, signal);
  const before = change === "added" ? null : await definition(since);
  const after = change === "removed" ? null : await definition(revision);
  return make("section", changeTitle(tool, change), changeLines(tool, before, after));
}
