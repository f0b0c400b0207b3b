// What pages share: headings, tables, forms, and what is said when there is nothing to show, or when it fails.

import { Problem } from "./api.js";
import { make, nodes, visible } from "./elements.js";
import { go, link, reload } from "./address.js";

const LATE_S = 10;

/** The head of a page: its title, the question that it answers, and what can be done. */
export function heading(title, question = "", ...actions) {
  const found = nodes(actions);
  return make(
    "div.heading",
    make("div", make("h1", title), question && make("p.soft", question)),
    found.length > 0 && make("div.actions", found),
  );
}

/** Shown while a page waits for the API, until `signal` is aborted. */
export function loading(signal) {
  const shown = make("p.loading", { role: "status" }, "Loading…");
  const late = setTimeout(() => {
    shown.textContent = `The gateway has not answered for ${LATE_S} seconds. Still waiting…`;
  }, LATE_S * 1000);
  signal.addEventListener("abort", () => clearTimeout(late));
  return shown;
}

/** Why there is nothing to show, and what to do about it. */
export function empty(title, text, ...actions) {
  return make("div.empty", make("h2", title), make("p", text), make("div.actions", nodes(actions)));
}

/** An error of the API: what happened, its faults, the id by which the log knows it, and how to go on. */
export function problemBox(problem, ...actions) {
  return make(
    "div.problem",
    { role: "alert" },
    make("h2", problem.title),
    problem.detail && make("p", visible(problem.detail)),
    problem.faults.length > 0 && faultList(problem.faults),
    problem.requestId && make("p.soft", "Request ", make("code", problem.requestId)),
    make("div.actions", nodes(actions)),
  );
}

/** Faults of a toolset, each at its place. */
export function faultList(faults) {
  return make("ul.faults", faults.map((fault) => make(
    "li",
    make("p", fault.tool && make("strong", visible(fault.tool)), " ", make("code", visible(fault.pointer || "/"))),
    make("p", visible(fault.reason)),
    fault.suggestion && make("p.soft", visible(fault.suggestion)),
  )));
}

/**
 * A table. `columns` are `{ title, cell, kind }`: `cell(row)` gives what stands there; the kind `number` aligns to
 * the right. `caption` is for those who do not see the heading above it.
 */
export function table(caption, columns, rows) {
  const head = columns.map(({ title, kind }) => make(`th.${kind ?? "text"}`, { scope: "col" }, title));
  const body = rows.map((row) => make("tr", columns.map(({ title, cell, kind }) => (
    make(`td.${kind ?? "text"}`, { "data-title": title }, nodes(cell(row)))
  ))));
  return make(
    "div.scroll",
    { role: "region", "aria-label": caption, tabindex: "0" },
    make("table", make("caption.hidden", caption), make("thead", make("tr", head)), make("tbody", body)),
  );
}

/** A word with a colour: plain, good, fair, kept, bad or new. */
export function badge(text, tone = "plain") {
  return make(`span.badge.${tone}`, text);
}

/** A control with its label, and a hint below it. */
export function field(label, control, hint = "") {
  control.id ||= `field-${label.toLowerCase().replaceAll(/\W+/g, "-")}`;
  if (hint) control.setAttribute("aria-describedby", `${control.id}-hint`);
  return make(
    "div.field",
    make("label", { for: control.id }, label),
    control,
    hint && make("p.soft", { id: `${control.id}-hint` }, hint),
  );
}

/** A list of terms, each with what it is: `facts([["Revision", 3], …])`. */
export function facts(pairs) {
  return make("dl.facts", pairs.map(([term, value]) => make("div", make("dt", term), make("dd", nodes(value)))));
}

/**
 * Ask the gateway every few seconds while the page is seen, until `signal` is aborted, and `show` each answer. Gives an
 * element which says that what is shown is old, while there is no answer. `ask` gets the signal at which to stop.
 */
export function polling(seconds, ask, show, signal) {
  const note = make("p.fair-note", { role: "status", hidden: true });
  let answered = new Date();
  let isWaiting = false;
  const poll = async () => {
    if (document.hidden || isWaiting) return;
    isWaiting = true;
    try {
      const answer = await ask(AbortSignal.any([signal, AbortSignal.timeout(LATE_S * 1000)]));
      answered = new Date();
      note.hidden = true;
      show(answer);
    } catch (error) {
      if (!(error instanceof Problem || error instanceof DOMException)) throw error;
      const reason = error instanceof Problem ? `${error.title}. ${error.detail}` : `The gateway has not answered for ${LATE_S} seconds.`;
      const told = `This is how it was at ${answered.toLocaleTimeString()}. ${reason}`;
      if (note.textContent !== told) note.textContent = told; // a screen reader says it once
      note.hidden = false;
    } finally {
      isWaiting = false;
    }
  };
  const timer = setInterval(poll, seconds * 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
  return note;
}

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const number = (value) => (value == null ? "–" : GROUPED.format(value));

/** How many, with the noun: `1 tool`, `2,000 tools`. */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Bytes for people: `12.3 kB`. */
export function bytes(value) {
  if (value == null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (value >= 1000 && step < units.length - 1) [value, step] = [value / 1000, step + 1];
  return `${number(value)} ${units[step]}`;
}

/** A time for people, of milliseconds: `0.4 ms`, `12 ms`, `3.2 s`. */
export function duration(ms) {
  if (ms == null) return "–";
  if (ms < 1000) return `${ms < 10 ? number(ms) : Math.round(ms)} ms`;
  return ms < 60_000 ? `${number(ms / 1000)} s` : `${number(ms / 60_000)} min`;
}

/** A moment: how long ago, and on pointing at it when. */
export function moment(iso) {
  const then = new Date(iso);
  return make("time.moment", { datetime: iso, title: then.toLocaleString() }, agoOf(then));
}

/** Write the moments in an element anew: time has passed. */
export function updateMoments(element) {
  for (const shown of element.querySelectorAll("time.moment")) shown.textContent = agoOf(new Date(shown.dateTime));
}

const agoOf = (then) => ago((Date.now() - then) / 1000);

function ago(seconds) {
  const steps = [[60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [Infinity, "year"]];
  for (const [size, unit] of steps) {
    if (seconds < size) {
      const whole = Math.max(0, Math.floor(seconds));
      return unit === "second" && whole < 5 ? "just now" : `${count(whole, unit)} ago`;
    }
    seconds /= size;
  }
  return "";
}

/** A field that searches a list: it changes the query `search` of the address once there is a pause. */
export function searchField(label, value, path, query = {}) {
  const input = make("input", { type: "search", placeholder: label, "aria-label": label, autocomplete: "off" });
  input.value = value;
  let timer;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (!input.isConnected) return;
      go(path, { ...query, search: input.value.trim() }, { replace: true });
      reload();
    }, 250);
  });
  return make("search.search", input);
}

/** The way to the next page of a listing, and back to the first. */
export function pager(path, query, next, name = "after") {
  const isFirst = !query[name];
  if (isFirst && next == null) return null;
  return make(
    "nav.pager",
    { "aria-label": "Further pages" },
    !isFirst && make("a.button.quiet", { href: link(path, { ...query, [name]: null }) }, "First page"),
    next != null && make("a.button.quiet", { href: link(path, { ...query, [name]: next }) }, "Next page"),
  );
}
