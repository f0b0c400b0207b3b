// The request: which model and tools, how to sample, and what is said.

import { keepTyped } from "../typed_input.js";
import { controlsFor, toolsOf } from "./controls.js";
import { make } from "../elements.js";
import { field } from "../parts.js";

/**
 * The form of a request. When the user runs it, `onRun`'s listener gets the request's body, its tools and the schema of
 * an answer (or null). `begin` shows that the request runs, and returns the controller that stops it; `end` shows that
 * it has ended.
 */
export function requestForm(models, toolsets, query, signal) {
  const control = controlsFor(models, toolsets, query);
  const { model, toolset, selection, temperature, maxTokens, seed, system, answer, message } = control;
  const kept = { model, toolset, selection, temperature, maxTokens, seed, system, answer, message };
  const typed = keepTyped("playground", kept, signal);
  for (const name of ["toolset", "message"]) control[name].value = query[name] ?? control[name].value;
  const submit = make("button", { type: "submit" }, "Run");
  const stop = make("button.quiet", { type: "button", hidden: true }, "Stop");
  const problem = make("p.problem-line", { role: "alert", hidden: true });
  let listener = () => {};
  let leaving = null;

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

  const tools = toolsOf(control, showingErrors, signal);
  const run = (options) => showingErrors(() => {
    const schema = schemaOf(control.answer.value.trim());
    return listener(requestBody(control, tools, schema, options), tools.all, schema);
  });
  const element = make(
    "form.card.request",
    { onsubmit: (event) => { event.preventDefault(); if (!submit.disabled) run(); }, "aria-label": "Request" },
    ...fields(control, typed.isKept),
    problem,
    make("div.actions", submit, stop),
  );
  control.message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element.requestSubmit();
  });
  stop.addEventListener("click", () => leaving?.abort());

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

/** The controls with their labels, those that are seldom needed below "More", which is open at first if `isOpen`. */
function fields(control, isOpen) {
  const shownTemperature = make("output");
  const temperature = field("Temperature", control.temperature);
  temperature.querySelector("label").append(" ", shownTemperature);
  const showTemperature = () => { shownTemperature.textContent = Number(control.temperature.value).toFixed(1); };
  control.temperature.addEventListener("input", showTemperature);
  showTemperature();
  return [
    field("Message", control.message, "Ctrl+Enter runs the request."),
    make("div.pair", field("Toolset", control.toolset), field("Revision", control.revision)),
    field("Tool choice", control.choice),
    field("Model", control.model),
    temperature,
    make("details", { open: isOpen }, make("summary", "More"), make(
      "div",
      field("Selection", control.selection, "Writes several answers, and keeps one as the model itself would have written it."),
      make("div.pair", field("Most tokens", control.maxTokens), field("Seed", control.seed)),
      field("Instructions", control.system),
      field("Answer's schema", control.answer, "A JSON Schema, which an answer that calls no tool follows."),
    )),
  ];
}

/** The schema of an answer that calls no tool; null if any text may be one. */
function schemaOf(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The answer's schema is not JSON: ${error.message}`);
  }
}

/** The body of the request, as the controls say it. */
function requestBody(control, tools, schema, { inspect = true } = {}) {
  const [strategy, size] = control.selection.value.split(":");
  const version = control.revision.value ? `@${control.revision.value}` : "";
  const named = control.choice.value.startsWith("tool:") && control.choice.value.slice(5);
  const system = control.system.value.trim();
  return {
    model: control.model.value,
    messages: [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: control.message.value }],
    ...(tools.isExample() ? { tools: tools.all } : { toolset: control.toolset.value + version }),
    ...(schema === null ? {} : { response_format: { type: "json_schema", json_schema: { name: "answer", schema } } }),
    tool_choice: named ? { type: "function", function: { name: named } } : control.choice.value,
    temperature: Number(control.temperature.value),
    max_tokens: Number(control.maxTokens.value),
    ...(control.seed.value === "" ? {} : { seed: Number(control.seed.value) }),
    stream: true,
    callgate: { ...(inspect ? { inspect } : {}), ...(strategy ? { [strategy]: Number(size) } : {}) },
  };
}
