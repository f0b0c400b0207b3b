// The last requests: where did their time go? Their addresses: `#/requests`, `#/requests/ID`.

import { get, inWords } from "../api.js";
import { make } from "../elements.js";
import { badge, count, duration, empty, facts, heading, moment, number, pager, polling, table } from "../parts.js";
import { link } from "../address.js";
import { renew } from "../renewal.js";

const PAGE_SIZE = 50;
const REFRESH_S = 3;

const STEPS = {
  grammar: "finding the grammar",
  queue: "waiting for the engine",
  prefill: "computing the prompt",
  decode: "writing tokens",
};

export function show(address, signal) {
  return address.path.length ? showOne(address.path.join("/"), signal) : showAll(address, signal);
}

async function showAll(address, signal) {
  const { before, failed } = address.query;
  const ask = (until) => get("v1/requests", { before, failed, limit: PAGE_SIZE }, until);
  const first = await ask(signal);
  const list = make("div", listed(first, address.query));
  let newest = first.requests[0]?.number;
  const show = (page) => {
    if (page.requests[0]?.number === newest) return;
    newest = page.requests[0]?.number;
    renew(list, listed(page, address.query));
  };
  return [
    heading("Requests", "Which failed, and where did the time of the last ones go?"),
    !first.is_off && make("nav.tabs", { "aria-label": "Which requests" }, tab("All", {}, !failed), tab("Failed", { failed: true }, failed)),
    !before && !first.is_off && polling(REFRESH_S, ask, show, signal),
    list,
  ];
}

function tab(title, query, isCurrent) {
  return make("a", { href: link(["requests"], query), "aria-current": isCurrent && "true" }, title);
}

function listed({ requests, next, is_off: isOff }, query) {
  if (isOff) {
    return [empty("No requests are kept", "The setting recent_requests is 0. Start the gateway with a larger one to see timings here.")];
  }
  if (!requests.length && query.failed) {
    return [empty("None failed", "Of the last requests that this gateway keeps, none was refused, failed, or was left by its client.")];
  }
  if (!requests.length) {
    return [empty("No request yet", "Ask a model, and the request appears here with its timings. What it said is not kept.")];
  }
  const longest = Math.max(...requests.map((each) => each.duration_ms), 1);
  return [
    legend(),
    table("Requests", [
      { title: "Ended", cell: (row) => make("a.strong", { href: link(["requests", row.id]) }, moment(endOf(row))) },
      { title: "Model", cell: (row) => [
        row.model ?? "–",
        row.toolsets.length > 0 && make("div.soft.small", row.toolsets.join(", ")),
      ] },
      { title: "Result", cell: (row) => [outcome(row)] },
      { title: "Tokens", kind: "number", cell: (row) => (row.output_tokens == null ? "–" : `${number(row.input_tokens)} → ${number(row.output_tokens)}`) },
      { title: "Time", kind: "wide", cell: (row) => waterfall(row, longest) },
      { title: "", kind: "number", cell: (row) => duration(row.duration_ms) },
    ], requests),
    pager(["requests"], query, next, "before"),
  ].filter(Boolean);
}

function endOf(row) {
  return new Date(Date.parse(row.at) + row.duration_ms).toISOString();
}

function outcome(row) {
  if (row.status == null || row.error === "ClientGone") return badge("client left", "fair");
  if (row.error || row.status >= 400) {
    const isOurs = row.status >= 500 || row.status < 400; // an answer that had begun broke off
    return badge(errorInWords(row.error) ?? String(row.status), isOurs ? "bad" : "fair");
  }
  if (row.closed_by) return badge(`closed by ${row.closed_by}`, "fair");
  return badge(row.finish_reasons.join(", ") || String(row.status), "good");
}

/** The type of an error as words: `PromptTooLong` is "Prompt too long". */
function errorInWords(type) {
  return type && inWords(type.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase());
}

/** The steps of a request as a bar that is `longest` milliseconds wide; all of it in gray, if `isWhole`. */
function waterfall(row, longest, isWhole = true) {
  const percent = (ms) => `${Math.min(100, (ms / longest) * 100).toFixed(2)}%`;
  const text = row.steps.map((step) => `${STEPS[step.name]} ${duration(step.duration_ms)}`).join(", ");
  return make(
    "div.waterfall",
    { role: "img", "aria-label": text || `${duration(row.duration_ms)} without a step` },
    isWhole && make("span.whole", { style: { width: percent(row.duration_ms) } }),
    row.steps.map((step) => make(`span.step.${step.name}`, {
      title: `${STEPS[step.name]}: ${duration(step.duration_ms)}`,
      style: { left: percent(step.start_ms), width: percent(step.duration_ms) },
    })),
  );
}

function legend() {
  return make("ul.swatches", Object.entries(STEPS).map(([name, meaning]) => (
    make("li", make(`span.swatch.${name}`), make("strong", name), ` ${meaning}`)
  )));
}

async function showOne(id, signal) {
  const found = await get(`v1/requests/${encodeURIComponent(id)}`, {}, signal);
  return [
    heading("Request", `${found.route}, ${new Date(found.at).toLocaleString()}`,
      make("a.button.quiet", { href: link(["requests"]) }, "All requests")),
    make("p", make("code", found.id)),
    make("section.card", make("h2", "Time"), steps(found)),
    make("section", make("h2", "Answer"), facts([
      ["Model", found.model ?? "–"],
      ["Status", found.status ?? "client left"],
      ["Toolsets", found.toolsets.length ? found.toolsets.map((each) => make("span.mono", each, " ")) : "none"],
      ["Finish reason", found.finish_reasons.join(", ") || "–"],
      found.error && ["Error", [errorInWords(found.error), " ", make("code.soft", found.error)]],
      found.strategy && ["Selected by", `${found.strategy}, of ${count(found.answers, "answer")}`],
      found.closed_by && ["Completed by", found.closed_by === "budget" ? "the budget closer" : found.closed_by],
      ["First token after", duration(found.first_token_ms)],
    ].filter(Boolean))),
    make("section", make("h2", "Tokens"), facts([
      ["Input", found.cached_tokens ? `${number(found.input_tokens)}, ${number(found.cached_tokens)} of them cached` : number(found.input_tokens)],
      ["Output", number(found.output_tokens)],
      ["Computed by the model", told(found, number, found.computed_tokens)],
      ["Forced by the grammar", number(found.forced_tokens)],
      ["Rescued by the mask", told(found, number, found.rescued_tokens)],
      ["Probability removed, on average", told(found, (mass) => `${number(mass * 100)} %`, found.mass_removed)],
    ])),
    found.grammar_source && make("section", make("h2", "Grammar"), facts([
      ["Found in", { memory: "memory", store: "the store", compiled: "compiled for this request" }[found.grammar_source]],
      ["Digest", make("a", { href: link(["grammars", found.grammar]) }, make("code", found.grammar.slice(0, 16)))],
    ])),
  ];
}

/** What an engine may not tell; of a request without an answer there is nothing to tell. */
function told(found, write, value) {
  if (value != null) return write(value);
  return found.output_tokens == null ? "–" : "not told by the engine";
}

function steps(found) {
  if (!found.steps.length) {
    return make("p.soft", `The request ended after ${duration(found.duration_ms)}, before its first step.`);
  }
  return make("table.steps", make("caption.hidden", "Steps"), make("tbody",
    found.steps.map((step) => make(
      "tr",
      make("th", { scope: "row" }, step.name, make("div.soft.small", STEPS[step.name])),
      make("td.wide", waterfall({ ...found, steps: [step] }, Math.max(found.duration_ms, 1), false)),
      make("td.number", duration(step.duration_ms)),
    )),
    make("tr", make("th", { scope: "row" }, "total"), make("td"), make("td.number", duration(found.duration_ms))),
  ));
}
