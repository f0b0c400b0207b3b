// The request: which model and tools, how to sample, and what is said.

import { get } from "../api.js";
import { make } from "../elements.js";
import { field } from "../parts.js";
import { go } from "../address.js";

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

/**
 * The form of a request. When the user runs it, `onRun`'s listener gets the request's body, its tools and the schema of
 * an answer (or null). `begin` shows that the request runs, and returns the controller that stops it; `end` shows that
 * it has ended.
 */
export function requestForm(models, toolsets, query, signal) {
  const control = {
    model: select(models.map((name) => [name, name])),
    toolset: select([[EXAMPLE, "An example"], ...toolsets.map((name) => [name, name])]),
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
  const shownTemperature = make("output", "1.0");
  const submit = make("button", { type: "submit" }, "Run");
  const stop = make("button.quiet", { type: "button", hidden: true }, "Stop");
  const problem = make("p.problem-line", { role: "alert", hidden: true });
  let tools = [];
  let listener = () => {};
  let leaving = null;

  if (toolsets.includes(query.toolset)) control.toolset.value = query.toolset;
  control.message.value = query.message ?? "";

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
    tools = found;
    const before = control.choice.value || "required";
    setOptions(control.choice, [
      ["required", "required: some tool"], ["auto", "auto: a tool, or text"], ["none", "none: text"],
      ...tools.map((tool) => [`tool:${nameOf(tool)}`, nameOf(tool)]),
    ]);
    if ([...control.choice.options].some((option) => option.value === before)) control.choice.value = before;
    else control.choice.value = "required";
  }

  /** Do some work of this form, and show its error here. */
  async function showingErrors(work) {
    problem.hidden = true;
    try {
      await work();
    } catch (error) {
      if (signal.aborted) return;
      problem.textContent = error.message;
      problem.hidden = false;
    }
  }

  /** The schema of an answer that calls no tool; null if any text may be one. */
  function answerSchema() {
    const text = control.answer.value.trim();
    if (!text) return null;
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Error(`The answer's schema is not JSON: ${error.message}`);
    }
  }

  /** The body of the request, as the form says it. */
  function requestBody(schema, { inspect = true } = {}) {
    const [strategy, size] = control.selection.value.split(":");
    const name = control.toolset.value;
    const version = control.revision.value ? `@${control.revision.value}` : "";
    const named = control.choice.value.startsWith("tool:") && control.choice.value.slice(5);
    const system = control.system.value.trim();
    return {
      model: control.model.value,
      messages: [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: control.message.value }],
      ...(name === EXAMPLE ? { tools } : { toolset: name + version }),
      ...(schema === null ? {} : { response_format: { type: "json_schema", json_schema: { name: "answer", schema } } }),
      tool_choice: named ? { type: "function", function: { name: named } } : control.choice.value,
      temperature: Number(control.temperature.value),
      max_tokens: Number(control.maxTokens.value),
      ...(control.seed.value === "" ? {} : { seed: Number(control.seed.value) }),
      stream: true,
      callgate: { ...(inspect ? { inspect } : {}), ...(strategy ? { [strategy]: Number(size) } : {}) },
    };
  }

  const run = (options) => showingErrors(() => {
    const schema = answerSchema();
    return listener(requestBody(schema, options), tools, schema);
  });
  control.toolset.addEventListener("change", () => {
    go(["playground"], { toolset: control.toolset.value }, { replace: true });
    showingErrors(useToolset);
  });
  control.revision.addEventListener("change", () => showingErrors(useRevision));
  control.temperature.addEventListener("input", () => {
    shownTemperature.textContent = Number(control.temperature.value).toFixed(1);
  });
  control.message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element.requestSubmit();
  });
  stop.addEventListener("click", () => leaving?.abort());

  const element = make(
    "form.card.request",
    { onsubmit: (event) => { event.preventDefault(); if (!submit.disabled) run(); }, "aria-label": "Request" },
    field("Message", control.message, "Ctrl+Enter runs the request."),
    make("div.pair", field("Toolset", control.toolset), field("Revision", control.revision)),
    field("Tool choice", control.choice),
    field("Model", control.model),
    field("Temperature", control.temperature),
    make("details", make("summary", "More"), make(
      "div",
      field("Selection", control.selection, "Draws several answers, and keeps one as the model itself would have written it."),
      make("div.pair", field("Most tokens", control.maxTokens), field("Seed", control.seed)),
      field("Instructions", control.system),
      field("Answer's schema", control.answer, "A JSON Schema, which an answer that calls no tool follows."),
    )),
    problem,
    make("div.actions", submit, stop),
  );
  element.querySelector(`label[for="${control.temperature.id}"]`).append(" ", shownTemperature);
  useTools([EXAMPLE_TOOL]);
  showingErrors(useToolset);

  return {
    element,
    run,
    onRun: (each) => { listener = each; },
    begin(around) {
      leaving = new AbortController();
      around.addEventListener("abort", () => leaving.abort());
      submit.disabled = true;
      stop.hidden = false;
      return leaving;
    },
    end() {
      submit.disabled = false;
      stop.hidden = true;
    },
  };
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
