// Registering a toolset by paste or file: it is checked while it is written, and refusals stand at their lines.

import { Problem, call, getText } from "../api.js";
import { keepTyped } from "../typed_input.js";
import { make } from "../elements.js";
import { indented, itemTexts, lineAt, memberTexts, readJSON } from "../json_text.js";
import { empty, field, heading, problemBox } from "../parts.js";
import { go, link, reload } from "../address.js";
import { faultList, verdicts } from "./check_result.js";
import { jsonEditor } from "./json_editor.js";

const PAUSE_MS = 350;
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const EXAMPLE = `{
  "tools": [
    {
      "name": "forecast",
      "description": "The weather of a place in the next days.",
      "inputSchema": {
        "type": "object",
        "properties": {
          "place": { "type": "string", "maxLength": 80 },
          "days": { "type": "integer", "minimum": 1, "maximum": 14 }
        },
        "required": ["place"],
        "additionalProperties": false
      }
    }
  ]
}`;

export async function showRegister(address, signal) {
  const { name } = address.query;
  const current = name ? await currentContent(name, signal) : { text: "", revision: "", isImported: false };
  const { text, revision, isImported } = current;
  const form = new RegisterForm(name ?? "", text, revision, signal);
  const loss = isImported ? " Some of these tools were imported; registering forgets their sources." : "";
  return [
    heading(
      name ? `Change ${name}` : "Register a toolset",
      `A toolset is stored only if every keyword of every tool can be enforced.${loss}`,
      make("a.button.quiet", { href: link(name ? ["toolsets", name] : ["toolsets"]), onclick: () => form.typed.forget() }, "Cancel"),
    ),
    form.typed.isKept && make("p.fair-note", "This is what you wrote here before, and did not register. ",
      form.base.value !== revision && `You began with revision ${form.base.value}, and now there is revision ${revision}: registering undoes what changed since. `,
      make("button.text", { type: "button", onclick: () => { form.typed.forget(); reload(); } }, "Start again")),
    form.element,
  ];
}

/** The current revision as text, in the form in which it can be registered again, its number, and whether it has sources. */
async function currentContent(name, signal) {
  const path = `v1/toolsets/${encodeURIComponent(name)}`;
  const current = memberTexts(await getText(path, { shape: "mcp" }, signal));
  const revision = current.get("revision");
  const others = itemTexts(memberTexts(await getText(`${path}/revisions/${revision}`, { shape: "anthropic" }, signal)).get("tools"));
  // Only MCP's shape has `_meta`, for example, and only Anthropic's has both `cache_control` and `strict`.
  const tools = itemTexts(current.get("tools")).map((tool, i) => (size(others[i]) > size(tool) ? others[i] : tool));
  const parts = [`"tools": [${tools}]`];
  for (const part of ["documents", "prompt_tools", "tool_search"]) {
    const text = current.get(part);
    if (text !== "{}" && text !== "null") parts.push(`"${part}": ${text}`);
  }
  return { text: indented(`{${parts}}`), revision, isImported: current.get("sources") !== "[]" };
}

function size(object) {
  return Object.keys(JSON.parse(object)).length;
}

class RegisterForm {
  constructor(name, text, revision, signal) {
    this.signal = signal;
    this.isNew = !name;
    this.name = make("input", { name: "name", autocomplete: "off", spellcheck: "false", placeholder: "weather" });
    this.name.value = name;
    this.name.readOnly = Boolean(name);
    this.name.addEventListener("input", () => this.changed());
    this.editor = jsonEditor({ id: "tools", text, placeholder: EXAMPLE, onInput: () => this.changed() });
    this.base = make("input", { type: "hidden", value: revision });
    this.typed = keepTyped(`register/${name}`, { name: this.name, text: this.editor.area, base: this.base }, signal);
    this.result = make("div.result", { "aria-live": "polite" });
    this.save = make("button", { type: "submit", disabled: true }, "Register");
    this.element = make(
      "form.split.wide-left",
      { onsubmit: (event) => { event.preventDefault(); this.register(); } },
      make(
        "div",
        field("Name", this.name, "Lower-case letters, digits, dots, hyphens and underscores."),
        make(
          "div.field",
          make("label", { for: "tools" }, "Tools, as JSON"),
          this.editor.element,
          make("p.soft", "In OpenAI's, Anthropic's or MCP's shape: {\"tools\": […]}, a list of tools, or one tool."),
        ),
        make("div.actions", this.save, this.fileButton(), text === "" && this.exampleButton()),
      ),
      make("div", make("h2", "Check"), this.result),
    );
    this.changed();
  }

  fileButton() {
    const input = make("input.hidden", { type: "file", accept: ".json,application/json", tabindex: "-1", "aria-label": "File of tools" });
    input.addEventListener("change", async () => {
      const [file] = input.files;
      this.editor.write(await file.text());
      input.value = ""; // so that the same file, written anew, can be opened again
    });
    const button = make("button.quiet", { type: "button", onclick: () => input.click() }, "Open a file");
    return [button, input];
  }

  exampleButton() {
    return make("button.quiet", { type: "button", onclick: () => this.editor.write(EXAMPLE) }, "Insert an example");
  }

  /** Check what was typed, once the user pauses. */
  changed() {
    clearTimeout(this.timer);
    this.checking?.abort();
    this.save.disabled = true;
    this.editor.mark([]);
    this.timer = setTimeout(() => this.check(), PAUSE_MS);
  }

  async check() {
    const text = this.editor.text();
    if (!text.trim()) {
      return this.showResult(empty("Paste tools to check them", "What cannot be enforced is shown at its line. Nothing is stored yet."));
    }
    const read = readJSON(text);
    if (read.error) return this.showFaults([{ line: read.error.line, title: "This is no JSON", reason: read.error.reason }]);
    if (!NAME.test(this.name.value)) {
      return this.showResult(empty("Name the toolset", "It is checked as soon as it has a name of its own."));
    }
    this.checking = new AbortController();
    const { signal } = this.checking;
    const { body, prefix } = bodyOf(text, read.value);
    try {
      this.showResult(make("p.soft", { role: "status" }, "Checking…"));
      const found = await call("POST", `${this.path}/check`, { body, signal: AbortSignal.any([signal, this.signal]) });
      return this.allow(body, found);
    } catch (error) {
      if (signal.aborted || this.signal.aborted) return undefined;
      if (!(error instanceof Problem)) throw error;
      if (!error.faults.length) return this.showResult(problemBox(error, this.againButton()));
      return this.showFaults(error.faults.map((fault) => ({
        ...fault, title: fault.tool ?? "Toolset", line: lineAt(read.lines, withoutPrefix(fault.pointer, prefix)),
      })));
    }
  }

  get path() {
    return `v1/toolsets/${encodeURIComponent(this.name.value)}`;
  }

  /** Show the verdicts, and allow registering what was checked. */
  allow(body, found) {
    this.checked = { body, etag: found.current?.etag };
    this.save.disabled = false;
    this.save.textContent = found.current ? `Register revision ${found.current.revision + 1}` : "Register";
    this.showResult(...verdicts(found, this.isNew && found.current && this.name.value));
  }

  showFaults(faults) {
    const sorted = faults.toSorted((one, other) => one.line - other.line);
    this.editor.mark(sorted.map((fault) => fault.line));
    this.showResult(...faultList(sorted, this.editor.text(), this.editor.goTo));
  }

  showResult(...parts) {
    this.result.replaceChildren(...parts.filter(Boolean));
  }

  async register() {
    if (this.save.disabled) return;
    this.save.disabled = true;
    const { body, etag } = this.checked;
    try {
      await call("PUT", this.path, { body, headers: etag ? { "If-Match": etag } : { "If-None-Match": "*" } });
      this.typed.forget();
      go(["toolsets", this.name.value]);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.showResult(problemBox(error, this.againButton()));
    }
  }

  againButton() {
    return make("button", { type: "button", onclick: () => this.changed() }, "Check again");
  }
}

/** The body of a request, as text, and the prefix that its pointers have before the same pointers into `text`. */
function bodyOf(text, value) {
  if (Array.isArray(value)) return { body: `{"tools": ${text}}`, prefix: "/tools" };
  if (value !== null && typeof value === "object" && !("tools" in value) && ("name" in value || "function" in value)) {
    return { body: `{"tools": [${text}]}`, prefix: "/tools/0" };
  }
  return { body: text, prefix: "" };
}

function withoutPrefix(pointer, prefix) {
  return pointer.startsWith(prefix) ? pointer.slice(prefix.length) : pointer;
}
