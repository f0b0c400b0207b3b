// The system: is it well, and how busy is it?

import { get } from "../api.js";
import { make, nodes } from "../elements.js";
import { badge, bytes, count, empty, facts, heading, number, polling, table } from "../parts.js";
import { link } from "../address.js";
import { plot } from "../plots.js";
import { renew } from "../renewal.js";

const REFRESH_S = 2;
const MAX_SAMPLES = 300;

/** What was measured since the console was opened: `{ at, running, waiting, tokens, turns, pages }`. */
const samples = [];

const PLOTS = [
  {
    title: "Sequences",
    series: [{ label: "running", colour: "--accent" }, { label: "waiting", colour: "--fair" }],
    values: [(sample) => sample.running, (sample) => sample.waiting],
  },
  { title: "Tokens per second", series: [{ label: "of answers that ended", colour: "--accent" }], values: [rate("tokens")] },
  { title: "Requests per second", series: [{ label: "answered", colour: "--accent" }], values: [rate("turns")] },
  { title: "Pages of the KV cache", series: [{ label: "used", colour: "--accent" }], values: [(sample) => sample.pages] },
];

function rate(name) {
  return (sample, at) => {
    const before = samples[at - 1];
    if (!before || sample[name] < before[name]) return null;
    return (sample[name] - before[name]) / (sample.at - before.at);
  };
}

export async function show(_address, signal) {
  const ask = (until) => get("v1/system", {}, until);
  const readiness = make("div.readiness");
  const state = make("div");
  const figures = PLOTS.map((each) => figure(each));
  const render = (found) => {
    record(found);
    readiness.replaceChildren(readinessOf(found));
    renew(state, nodes(stateOf(found)));
    for (const each of figures) each.update();
  };
  render(await ask(signal));
  requestAnimationFrame(async () => {
    for (const each of figures) await each.begin(signal);
    for (const each of figures) each.update();
  });
  return [
    heading("System", "Is it well, and how busy is it?"),
    polling(REFRESH_S, ask, render, signal),
    readiness,
    make("div.figures", figures.map((each) => each.element)),
    state,
  ];
}

function record(found) {
  const sum = (name) => found.engines.reduce((total, engine) => total + (engine[name] ?? 0), 0);
  samples.push({
    at: Date.now() / 1000,
    running: sum("running"),
    waiting: sum("waiting"),
    pages: sum("used_pages"),
    tokens: found.totals.output_tokens,
    turns: found.totals.turns,
  });
  if (samples.length > MAX_SAMPLES) samples.shift();
}

/** A plot with its name, its series and their last values, which are also what a screen reader says. */
function figure({ title, series, values }) {
  const canvas = make("div.plot", { "aria-hidden": "true" });
  const caption = make("figcaption");
  let setData = null;
  return {
    element: make("figure.card", caption, canvas),
    async begin(signal) {
      if (!signal.aborted) setData = await plot(canvas, series, { signal });
    },
    update() {
      const columns = values.map((value) => samples.map((sample, at) => value(sample, at) ?? null));
      setData?.([samples.map((sample) => sample.at), ...columns]);
      caption.replaceChildren(make("strong", title), ...series.map((each, at) => (
        make("span.reading", make("span.swatch", { style: { background: `var(${each.colour})` } }), `${each.label} ${number(columns[at].at(-1))}`)
      )));
    },
  };
}

/** Whether this gateway takes requests, as a load balancer is told too. */
function readinessOf({ unready_reason: reason }) {
  if (!reason) return make("p.verdict-line.good", make("strong", "Ready."), " This gateway takes requests.");
  return make("p.verdict-line.bad", make("strong", "Not ready."), ` ${reason}`);
}

function stateOf(found) {
  const { grammars, totals } = found;
  const needed = grammars.found.memory + grammars.found.store + grammars.found.compiled;
  return [
    make("section", make("h2", "Engines"), found.engines.length ? engines(found.engines) : empty("No engine", "No model is loaded yet.")),
    make("section", make("h2", "Grammar cache"), make(
      "div.card",
      tiers(grammars.found, needed),
      facts([
        ["In memory", `${count(grammars.entries, "grammar")}, ${bytes(grammars.bytes)}`],
        ["Waiting to be compiled", number(grammars.waiting)],
        ["Needed by requests", number(needed)],
      ]),
    )),
    make("section", make("h2", "Since the start"), facts([
      ["Requests", number(totals.turns)],
      ["Failed", make("a", { href: link(["requests"], { failed: true }) }, number(totals.failed))],
      ["Tokens read", number(totals.input_tokens)],
      ["Tokens written", number(totals.output_tokens)],
      ["Forced", number(totals.forced_tokens)],
      ["Rescued", totals.rescued_tokens == null ? "not told by any engine" : number(totals.rescued_tokens)],
      ["Version", found.version],
    ])),
  ];
}

function engines(rows) {
  return table("Engines", [
    { title: "Model", cell: (row) => make("strong", row.model) },
    { title: "Engine", cell: (row) => make("span.mono", row.engine) },
    { title: "State", cell: (row) => [
      row.is_ready ? badge("ready", "good") : badge("takes no requests", "bad"),
      row.reason && make("div.soft.small", row.reason),
    ] },
    { title: "Running", kind: "number", cell: (row) => number(row.running) },
    { title: "Waiting", kind: "number", cell: (row) => number(row.waiting) },
    { title: "Failed", kind: "number", cell: (row) => number(row.failed) },
    { title: "KV pages", kind: "number", cell: (row) => (row.pages ? `${number(row.used_pages)} of ${number(row.pages)}` : "–") },
    { title: "Canary", kind: "number", cell: (row) => (row.canary_age_s == null ? "–" : `${number(row.canary_age_s)} s ago`) },
  ], rows);
}

/** Which tier had the grammars that requests needed, as one bar. */
function tiers(found, needed) {
  const names = { memory: "in memory", store: "in the store", compiled: "compiled" };
  if (!needed) return make("p.soft", "No request has needed a grammar yet.");
  const share = (name) => (found[name] / needed) * 100;
  const text = Object.keys(names).map((name) => `${names[name]} ${number(share(name))} %`).join(", ");
  return [
    make("div.tiers", { role: "img", "aria-label": text }, Object.keys(names).map((name) => (
      make(`span.${name}`, { style: { width: `${share(name)}%` } })
    ))),
    make("ul.swatches", Object.entries(names).map(([name, label]) => (
      make("li", make(`span.swatch.${name}`), `${label} ${number(found[name])}`)
    ))),
  ];
}
