// The controls of a request, and the tools that it shows.

import { get } from "../api.js";
import { go } from "../address.js";
import { make } from "../elements.js";

const EXAMPLE = "";
const EXAMPLE_MESSAGE = "A table for four at Luigi's on the terrace, tomorrow at 7, with a high chair";
const EXAMPLE_TOOL = {
  type: "function",
  function: {
    name: "book_table",
    description: "Book a table in a restaurant.",
    parameters: {
      type: "object",
      properties: {
        restaurant: { type: "string", minLength: 1 },
        guests: { type: "integer", minimum: 1, maximum: 12 },
        day: { type: "string", format: "date" },
        seating: { enum: ["inside", "terrace", "bar"] },
        wishes: { type: "array", items: { enum: ["quiet", "high chair", "vegan"] }, maxItems: 3 },
      },
      required: ["restaurant", "guests", "day", "seating"],
      additionalProperties: false,
    },
  },
};
const SELECTIONS = [["", "One answer, masked"], ...[["accept", "Accept, up to"], ["particles", "Particles,"]].flatMap(
  ([name, title]) => [2, 4, 8].map((size) => [`${name}:${size}`, `${title} ${size}`]),
)];

/** The controls of the form, as the address has them. */
export function controlsFor(models, toolsets, query) {
  const { toolset = EXAMPLE } = query;
  const named = toolset === EXAMPLE || toolsets.includes(toolset) ? toolsets : [toolset, ...toolsets]; // its error is told
  const control = {
    model: select(models.map((name) => [name, name])),
    toolset: select([[EXAMPLE, "An example"], ...named.map((name) => [name, name])]),
    revision: select([["", "latest"]]),
    choice: select([]),
    selection: select(SELECTIONS),
    temperature: make("input", { type: "range", min: 0, max: 2, step: 0.1, value: 1 }),
    maxTokens: make("input", { type: "number", min: 1, max: 4096, value: 256, required: true }),
    seed: make("input", { type: "number", step: 1, placeholder: "random" }),
    system: make("textarea.short", { rows: 2, placeholder: "none" }),
    answer: make("textarea.short.mono", { rows: 2, placeholder: "none: any text", spellcheck: "false" }),
    message: make("textarea.short", { rows: 3, required: true, placeholder: "Ask for something that these tools do." }),
  };
  return control;
}

/**
 * The tools that the controls of toolset and revision choose; `all` are those of the last choice. Functions that read
 * the gateway run in `showingErrors`.
 */
export function toolsOf(control, showingErrors, signal) {
  const chosen = { all: [], isExample: () => control.toolset.value === EXAMPLE };

  async function useToolset() {
    const name = control.toolset.value;
    if (["", EXAMPLE_MESSAGE].includes(control.message.value)) control.message.value = name === EXAMPLE ? EXAMPLE_MESSAGE : "";
    if (name === EXAMPLE) {
      setOptions(control.revision, [["", "–"]]);
      return useTools([EXAMPLE_TOOL]);
    }
    const { revisions } = await get(`v1/toolsets/${encodeURIComponent(name)}/revisions`, { limit: 50 }, signal);
    setOptions(control.revision, [["", "latest"], ...revisions.map((each) => [each.revision, `${each.revision}`])]);
    return useRevision();
  }

  async function useRevision() {
    const path = `v1/toolsets/${encodeURIComponent(control.toolset.value)}`;
    const revision = control.revision.value;
    useTools((await get(revision ? `${path}/revisions/${revision}` : path, {}, signal)).tools);
  }

  function useTools(found) {
    chosen.all = found;
    const before = control.choice.value;
    setOptions(control.choice, [
      ["required", "required: some tool"], ["auto", "auto: a tool, or text"], ["none", "none: text"],
      ...found.map((tool) => [`tool:${nameOf(tool)}`, nameOf(tool)]),
    ]);
    if ([...control.choice.options].some((option) => option.value === before)) control.choice.value = before;
  }

  control.toolset.addEventListener("change", () => {
    go(["playground"], { toolset: control.toolset.value }, { replace: true });
    showingErrors(useToolset);
  });
  control.revision.addEventListener("change", () => showingErrors(useRevision));
  useTools([EXAMPLE_TOOL]);
  showingErrors(useToolset);
  return chosen;
}

/** The name of a tool, in whichever API's shape it is. */
export const nameOf = (tool) => tool.function?.name ?? tool.name;

function select(options) {
  const element = make("select");
  setOptions(element, options);
  return element;
}

function setOptions(element, options) {
  element.replaceChildren(...options.map(([value, title]) => make("option", { value }, title)));
}
