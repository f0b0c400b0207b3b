// The pages of the console, as the navigation shows them: a line each.
//
// A page is a module with `show(address, signal)`. It gives the page's content, an element or a list of them, with one
// `h1` (see `heading` in parts.js). Errors that it raises are shown by the shell. `signal` is aborted when the user
// leaves: pass it to the API, and stop timers with it. A page that `isLinked` is reached from others only.

export const pages = [
  { name: "toolsets", title: "Toolsets", load: () => import("./pages/toolsets.js") },
  { name: "playground", title: "Playground", load: () => import("./pages/playground.js") },
  { name: "requests", title: "Requests", load: () => import("./pages/requests.js") },
  { name: "system", title: "System", load: () => import("./pages/system.js") },
  { name: "keys", title: "Keys", load: () => import("./pages/keys.js") },
  { name: "grammars", title: "Grammar", load: () => import("./pages/grammars.js"), isLinked: true },
];
