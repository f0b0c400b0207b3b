// One toolset: its tools, searched, and beside them one tool's schema with the verdict on each line.

import { call, get } from "../api.js";
import { askingButton } from "../dialogs.js";
import { make, visible } from "../elements.js";
import { badge, bytes, count, duration, empty, facts, heading, moment, number, pager, searchField } from "../parts.js";
import { go, link } from "../address.js";
import { schemaView, tally } from "./schema_view.js";

const PAGE_SIZE = 50;
const LONG = 1000;

export async function showToolset(name, address, signal) {
  const { search = "", after, revision } = address.query;
  const path = `v1/toolsets/${encodeURIComponent(name)}`;
  const page = await get(`${path}/tools`, { search, after, revision, limit: PAGE_SIZE }, signal);
  const shown = address.query.tool ?? page.tools[0]?.name;
  return [
    heading(
      name,
      revision ? `Revision ${revision}, which may not be the current one` : "What may a model call?",
      make("a.button.quiet", { href: link(["toolsets", name, "revisions"]) }, "Revisions"),
      !revision && deleteButton(name, path, page.etag),
      !revision && make("a.button", { href: link(["toolsets", "+register"], { name }) }, "Change"),
    ),
    make("div.summary", facts([
      ["Tools", number(page.num_tools)],
      ["Revision", number(page.revision)],
      ["Changed", moment(page.created_at)],
      ["Digest", make("code", { title: page.digest }, page.digest.slice(0, 12))],
      ...(revision || page.num_differing == null ? [] : [["Sources", sourcesLink(name, page.num_differing)]]),
    ])),
    page.num_tools === 0
      ? empty("No tools", "This toolset is registered without tools.")
      : make(
        "div.split",
        make(
          "div",
          searchField("Search tools", search, ["toolsets", name], { revision, tool: address.query.tool }),
          toolList(name, page.tools, shown, address.query),
          pager(["toolsets", name], address.query, page.next),
        ),
        shown ? await toolView(path, shown, address.query, signal) : empty("Nothing found", `No tool has “${search}” in its text.`),
      ),
  ];
}

function sourcesLink(name, differing) {
  const said = differing ? badge(`${count(differing, "tool")} to review`, "fair") : "nothing to review";
  return make("a", { href: link(["toolsets", name, "sources"]) }, said);
}

function deleteButton(name, path, etag) {
  const text = "Requests that name it are refused from now on. Its revisions stay, and one of them can be restored.";
  return askingButton("Delete", "danger", `Delete ${name}?`, text, async () => {
    await call("DELETE", path, { headers: { "If-Match": etag } });
    go(["toolsets", name, "revisions"]);
  });
}

function toolList(name, tools, shown, query) {
  return make("nav", { "aria-label": "Tools" }, make("ul.choices", tools.map((tool) => make(
    "li",
    make(
      "a",
      { href: link(["toolsets", name], { ...query, tool: tool.name }), "aria-current": tool.name === shown && "true" },
      make("span.mono", tool.name),
      make("span.soft.small", tool.description && visible(tool.description)),
    ),
  ))));
}

async function toolView(path, name, { tool: chosen, revision }, signal) {
  const tool = name.split("/").map(encodeURIComponent).join("/");
  const [definition, { tools: [report] }] = await Promise.all([
    get(`${path}/tools/${tool}`, { shape: "mcp", revision }, signal),
    get(`${path}/report`, { tool: name, revision }, signal),
  ]);
  const article = make(
    "article",
    { "aria-label": name },
    make("h2.mono.name", name),
    definition.description && descriptionOf(definition.description),
    facts([
      ["Grammar", bytes(report.grammar_bytes)],
      ["Compile time", duration(report.compile_ms)],
      ["Unit", make("a", { href: link(["grammars", report.digest]), title: report.digest }, make("code", report.digest.slice(0, 12)))],
      ["Keywords", tally(report.entries)],
    ]),
    schemaView(definition.inputSchema ?? {}, report.entries),
  );
  if (chosen) requestAnimationFrame(() => seen(article));
  return article;
}

/** Scroll to the tool that was chosen if it is below the list, as on a phone, unless the user types into the search. */
function seen(article) {
  const isTyping = document.activeElement.matches("input");
  if (!isTyping && article.getBoundingClientRect().top > innerHeight / 2) article.scrollIntoView();
}

/** A description; a long one is scrolled, so that the schema below it is found. */
function descriptionOf(text) {
  if (text.length <= LONG) return make("p.description", visible(text));
  return make("p.description.long", { role: "region", "aria-label": "Description", tabindex: "0" }, visible(text));
}
