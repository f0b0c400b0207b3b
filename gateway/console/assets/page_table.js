// The pages of the console, as the navigation shows them: a line each.
//
// A page is a module with `show(place, signal)`. It gives the page's content, an element or a list of them, with one
// `h1` (see `heading` in parts.js). Errors that it raises are shown by the shell. `signal` is aborted when the user
// leaves: pass it to the API, and stop timers with it.

export const pages = [
  { name: "toolsets", title: "Toolsets", load: () => import("./pages/toolsets.js") },
  { name: "playground", title: "Playground", load: () => import("./pages/playground.js") },
  { name: "keys", title: "Keys", load: () => import("./pages/keys.js") },
];
