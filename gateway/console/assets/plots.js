// Live plots by uPlot, in the colours of the page.

let loaded = null;

/** uPlot, loaded when a page first plots: a script that is no module. */
function load() {
  loaded ??= new Promise((resolve, reject) => {
    const at = (name) => new URL(`./vendor/${name}`, import.meta.url).href;
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: at("uPlot.min.css") });
    const script = Object.assign(document.createElement("script"), { src: at("uPlot.iife.min.js") });
    script.addEventListener("load", () => resolve(window.uPlot));
    script.addEventListener("error", () => reject(new Error("uPlot could not be loaded")));
    document.head.append(sheet, script);
  });
  return loaded;
}

const LEAST_S = 60;
const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const clock = (seconds) => TIME.format(seconds * 1000);
/** The times that a plot shows: a minute at least, which ends now where there is nothing yet. */
function span({ data: [times = []] }) {
  const end = times.at(-1) ?? Date.now() / 1000;
  return [Math.min(times[0] ?? end, end - LEAST_S), end];
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A plot in `element`, as wide as that is. `series` are `{ label, colour }` with names of the style sheet's colours.
 * Gives a function that shows other data: `[times in seconds, values of each series, …]`.
 */
export async function plot(element, series, { height = 150, signal } = {}) {
  const UPlot = await load();
  const axis = (more) => ({
    stroke: () => colour("--soft"),
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
    ...more,
  });
  const shown = new UPlot({
    width: element.clientWidth || 300,
    height,
    cursor: { drag: { x: false, y: false } },
    legend: { show: false },
    scales: { x: { range: span }, y: { range: (_, _least, most) => [0, Math.max(1, most * 1.15)] } },
    axes: [axis({ space: 90, size: 32, values: (_, times) => times.map(clock) }), axis({ size: 46, space: 34 })],
    series: [{}, ...series.map((each) => ({
      label: each.label,
      stroke: () => colour(each.colour),
      fill: () => `color-mix(in srgb, ${colour(each.colour)} 12%, transparent)`,
      width: 1.75,
      points: { show: false },
    }))],
  }, [[], ...series.map(() => [])], element);
  const resized = new ResizeObserver(() => shown.setSize({ width: element.clientWidth, height }));
  resized.observe(element);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => shown.redraw(), { signal });
  signal?.addEventListener("abort", () => { resized.disconnect(); shown.destroy(); });
  return (data) => shown.setData(data);
}
