// What the sources of a toolset offer beside what is served: each difference is accepted or declined.

import { Problem, call, get } from "../api.js";
import { link, reload } from "../address.js";
import { askingButton } from "../dialogs.js";
import { make, visible } from "../elements.js";
import { badge, count, empty, heading, number, problemBox } from "../parts.js";
import { changeLines, changeTitle, changedWords } from "./changes.js";

const MAX_SHOWN = 20;
const QUESTION = "What do the sources of these tools offer now, and what should be served?";

export async function showSources(name, _address, signal) {
  const path = `v1/toolsets/${encodeURIComponent(name)}`;
  const found = await get(`${path}/differences`, {}, signal);
  const failure = make("div");
  const review = new Review(path, found.etag, failure);
  const { differences, declined } = found;
  const tools = make("a.button.quiet", { href: link(["toolsets", name]) }, "Tools");
  return [
    heading(name, QUESTION, tools, differences.length > 1 && review.allButtons(name, differences.length)),
    failure,
    differences.length === 0 && empty(
      "Nothing to decide",
      "When the sources were imported last, they had what is served. Import them again with callgate tools import.",
    ),
    differences.slice(0, MAX_SHOWN).map((each) => difference(each, review.buttons(each))),
    differences.length > MAX_SHOWN && make("p.soft", `${number(differences.length - MAX_SHOWN)} more follow once these are decided.`),
    declined.length > 0 && make(
      "section",
      make("details.declined", make("summary", `${count(declined.length, "declined change")}, until the source changes again`),
        declined.slice(0, MAX_SHOWN).map((each) => difference(each, [review.button("accept", each)]))),
    ),
  ];
}

/** One tool: what became of it, where it comes from, its text, and its lines. */
function difference({ tool, source, change, description, served, offered }, buttons) {
  return make(
    "section.difference",
    { "aria-label": tool },
    make("div.decide", make("div", changeTitle(tool, change, description && badge("description changed", "fair")), make("p.soft.small", visible(source))), make("div.actions", buttons)),
    description && changedWords(...description),
    changeLines(tool, served, offered, "callgate tools accept TOOLSET --dry-run shows all."),
  );
}

/** Decides on what one revision showed, and on nothing that came since. */
class Review {
  constructor(path, etag, failure) {
    Object.assign(this, { path, etag, failure });
  }

  async decide(verb, body) {
    await call("POST", `${this.path}/${verb}`, { body, headers: { "If-Match": this.etag } });
    reload();
  }

  buttons(each) {
    return [this.button("accept", each), this.button("decline", each)];
  }

  button(verb, { tool, source }) {
    const [tone, word] = verb === "accept" ? ["", "Accept"] : [".quiet", "Decline"];
    const decide = async (event) => {
      event.target.disabled = true;
      try {
        await this.decide(verb, { tools: [tool], source });
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        this.failure.replaceChildren(problemBox(error, make("button", { type: "button", onclick: reload }, "Show what differs now")));
        this.failure.scrollIntoView({ block: "center" });
        event.target.disabled = false;
      }
    };
    return make(`button${tone}`, { type: "button", onclick: decide, "aria-label": `${word} ${tool}` }, word);
  }

  allButtons(name, total) {
    const all = count(total, "tool");
    const unseen = total > MAX_SHOWN ? ` ${number(total - MAX_SHOWN)} of them are not shown on this page; callgate tools accept ${name} --dry-run shows all.` : "";
    return [
      askingButton("Decline all", "quiet", `Decline ${all}?`, `${name} serves what it served. A tool is shown again once its source changes it again.`, () => this.decide("decline", {})),
      askingButton("Accept all", "plain", `Accept ${all}?`, `Models are shown them as the sources offer them. Read each text first: it may tell a model what to do.${unseen}`, () => this.decide("accept", {})),
    ];
  }
}
