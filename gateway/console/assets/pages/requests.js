// The last requests: where did their time go? Their addresses: `#/requests`, `#/requests/ID`.

import { get } from "../api.js";
import { make } from "../elements.js";
import { badge, duration, empty, every, facts, heading, moment, number, pager, table } from "../parts.js";
import { link } from "../address.js";

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
  const ask = () => get("v1/requests", { before: address.query.before, limit: PAGE_SIZE }, signal);
  const first = await ask();
  const list = make("div", listed(first));
  let newest = first.requests[0]?.number;
  const refresh = async () => {
    const page = await ask().catch(() => null); // the next one may come through
    if (!page || page.requests[0]?.number === newest || list.contains(document.activeElement)) return;
    newest = page.requests[0]?.number;
    list.replaceChildren(...listed(page));
  };
  if (!address.query.before && !first.is_off) every(REFRESH_S, refresh, signal);
  return [heading("Requests", "Where did the time of the last requests go?"), list];
}

function listed({ requests, next, is_off: isOff }) {
  if (isOff) {
    return [empty("No requests are kept", "The setting recent_requests is 0. Start the gateway with a larger one to see timings here.")];
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
    pager(["requests"], {}, next, "before"),
  ].filter(Boolean);
}

function endOf(row) {
  return new Date(Date.parse(row.at) + row.duration_ms).toISOString();
}

function outcome(row) {
  if (row.error || row.status == null || row.status >= 400) {
    return badge(row.error ?? (row.status == null ? "client left" : String(row.status)), row.status >= 500 ? "bad" : "fair");
  }
  if (row.closed_by) return badge(`closed by ${row.closed_by}`, "fair");
  return badge(row.finish_reasons.join(", ") || String(row.status), "good");
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
      found.error && ["Error", found.error],
      found.closed_by && ["Completed by", found.closed_by === "budget" ? "the budget closer" : found.closed_by],
      ["First token after", duration(found.first_token_ms)],
    ].filter(Boolean))),
    make("section", make("h2", "Tokens"), facts([
      ["Input", number(found.input_tokens)],
      ["Output", number(found.output_tokens)],
      ["Forced by the grammar", number(found.forced_tokens)],
      ["Rescued by the mask", found.rescued_tokens == null ? "not told by the engine" : number(found.rescued_tokens)],
      ["Probability removed", found.mass_removed == null ? "not told by the engine" : `${number(found.mass_removed * 100)} %`],
    ])),
    found.grammar_source && make("section", make("h2", "Grammar"), facts([
      ["Found in", { memory: "memory", store: "the store", compiled: "compiled for this request" }[found.grammar_source]],
      ["Digest", make("a", { href: link(["grammars", found.grammar]) }, make("code", found.grammar.slice(0, 16)))],
    ])),
  ];
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
