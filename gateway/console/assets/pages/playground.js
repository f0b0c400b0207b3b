// The playground: what does the mask do to each token of an answer?

import { Problem, get, getAll, inWords, stream } from "../api.js";
import { make } from "../elements.js";
import { heading, problemBox } from "../parts.js";
import { answerView } from "../playground/answer.js";
import { requestForm } from "../playground/form.js";
import { CAUSES, inspector } from "../playground/inspector.js";
import { Outcome } from "../playground/outcome.js";

/** Tokens of a call as the inspector shows them: how each came about, and what it says. */
const SAMPLE = [
  ["forced", '{"place": "'], ["free", "Lu"], ["free", "igi"], ["free", '"'], ["forced", ', "guests": '], ["rescued", "4"],
  ["forced", ', "seats": "'], ["rescued", "terrace"], ["closed", '"}'],
];

export async function show(address, signal) {
  const [models, toolsets] = await Promise.all([get("v1/models", {}, signal), getAll("v1/toolsets", "toolsets", signal)]);
  const output = make("div.output", welcome());
  const form = requestForm(modelNames(models.data), toolsets.map((each) => each.name), address.query, signal);
  form.onRun((request, tools, schema) => run(request, inspector(tools, schema), output, form, signal));
  return [
    heading("Playground", "What does the mask do to each token of an answer?"),
    make("div.playground", form.element, output),
  ];
}

/** Ask, and show the answer while it is written. */
async function run(request, inspected, output, form, signal) {
  const answer = answerView();
  const ended = make("div.ended", { role: "status" });
  output.replaceChildren(answer.element, ended, inspected.element);
  const outcome = new Outcome(request.temperature === 0);
  const leaving = form.begin(signal);
  if (output.getBoundingClientRect().top > innerHeight / 2) output.scrollIntoView(); // below the form on a phone
  try {
    const begun = (id) => { outcome.requestId = id; };
    for await (const chunk of stream("v1/chat/completions", { body: request, signal: leaving.signal, onBegin: begun })) {
      if (chunk.error) {
        throw new Problem(0, inWords(chunk.error.code ?? "The answer broke off"), chunk.error.message);
      }
      for (const choice of chunk.choices) answer.add(choice);
      inspected.add(chunk.callgate?.tokens ?? []);
      outcome.add(chunk);
    }
  } catch (error) {
    if (signal.aborted) return;
    if (!leaving.signal.aborted) {
      if (!(error instanceof Problem)) throw error;
      output.prepend(problemBox(error, withoutInspection(error, () => form.run({ inspect: false }))));
    }
  } finally {
    answer.end();
    inspected.end();
    form.end();
    ended.replaceChildren(...outcome.parts(leaving.signal.aborted));
  }
}

/** The way on from an engine that cannot tell. */
function withoutInspection(error, run) {
  if (error.status !== 400 || !error.detail.includes("callgate.inspect")) return null;
  return make("button", { type: "button", onclick: run }, "Run without the inspector");
}

/** The models, without those whose names have a toolset behind a colon. */
function modelNames(models) {
  const names = new Set(models.map((model) => model.id));
  return [...names].filter((name) => !names.has(name.slice(0, name.lastIndexOf(":"))));
}

function welcome() {
  return make(
    "div.empty",
    make("h2", "See a call being constrained"),
    make("p", "Run a request. Each token of the answer shows how it came about. Choose one to see what the model wanted "
      + "to write there, and what the mask took away."),
    make("div.chips.sample", { "aria-hidden": "true" }, SAMPLE.map(([cause, text]) => make(`span.chip.${cause}`, make("span", text)))),
    make("ul.legend", Object.entries(CAUSES).map(([cause, meaning]) => (
      make("li", make(`span.chip.${cause}`, make("span", cause)), make("span.soft", meaning))
    ))),
  );
}
