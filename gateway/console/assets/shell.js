// The frame: navigation, the key, and the page that the address names.

import { Problem, key } from "./api.js";
import { make, nodes } from "./elements.js";
import { pages } from "./page_table.js";
import { heading, loading, problemBox, updateMoments } from "./parts.js";
import { renew } from "./renewal.js";
import { forgetTyped } from "./typed_input.js";
import { link, readAddress, reload } from "./address.js";

const MOMENTS_S = 5;

const main = document.querySelector("#main");
const dialog = document.querySelector("#key-dialog");
let leaving = new AbortController();
let shown = null;

/** Show the page that the address names. */
async function show() {
  if (location.hash && !location.hash.startsWith("#/")) return;
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const address = readAddress(location.hash);
  const page = address.page ? pages.find((each) => each.name === address.page) : pages[0];
  markCurrent(page);
  const isElsewhere = pathOf(location.hash) !== shown;
  const wait = isElsewhere ? setTimeout(() => main.replaceChildren(loading(signal)), 150) : null;
  signal.addEventListener("abort", () => clearTimeout(wait));
  const content = await contentOf(page, address, signal);
  clearTimeout(wait);
  if (signal.aborted) return;
  if (isElsewhere) main.replaceChildren(); // nothing of the page before stays
  renew(main, nodes(content));
  settle(isElsewhere);
}

async function contentOf(page, address, signal) {
  if (!page) {
    const firstPage = make("a.button", { href: link([pages[0].name]) }, pages[0].title);
    return [heading("Callgate"), problemBox(new Problem(404, "There is no such page", "The navigation above has all pages."), firstPage)];
  }
  let module;
  try {
    module = await page.load();
  } catch {
    const text = "The gateway may have been updated, or does not answer. Reload the page.";
    const again = make("button", { type: "button", onclick: () => location.reload() }, "Reload");
    return [heading(page.title), problemBox(new Problem(0, "This page could not be loaded", text), again)];
  }
  try {
    return await module.show(address, signal);
  } catch (error) {
    if (signal.aborted) return [];
    if (error instanceof Problem) return problemContent(error, page);
    queueMicrotask(() => { throw error; }); // shows it in the browser's console too
    return problemContent(new Problem(0, "The page failed", String(error)), page);
  }
}

/** What is shown instead of a page that failed, with a button to go on. */
function problemContent(error, page) {
  const action = error.needsKey || (error.status === 403 && key.get())
    ? make("button", { type: "button", onclick: askForKey }, key.get() ? "Use another key" : "Enter a key")
    : make("button", { type: "button", onclick: reload }, "Try again");
  return [heading(page.title), problemBox(error, action, error.ways)];
}

function markCurrent(page) {
  for (const item of document.querySelectorAll("#pages a")) {
    if (item.dataset.page === page?.name) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
}

/** Name the window, and let a screen reader begin at the heading of another page than before. */
function settle(isElsewhere) {
  const title = main.querySelector("h1");
  document.title = title ? `${title.textContent} · Callgate` : "Callgate";
  if (shown !== null && isElsewhere && title) {
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  shown = pathOf(location.hash);
  main.dataset.shown = location.hash; // for tests: this address is shown
}

function pathOf(hash) {
  return hash.split("?")[0];
}

function askForKey() {
  const input = make("input", { id: "key-input", type: "password", autocomplete: "off", spellcheck: "false" });
  input.value = key.get();
  const use = (value) => {
    if (key.get() && !value) forgetTyped();
    key.set(value);
    dialog.close();
    showKey();
    reload();
  };
  const form = make(
    "form",
    { onsubmit: (event) => { event.preventDefault(); use(input.value.trim()); } },
    make("h2", { id: "key-title" }, "API key"),
    make("p.soft", "Sent to this gateway with every request, and kept until you close this tab."),
    make("label", { for: "key-input" }, "Key"),
    input,
    make(
      "div.actions",
      make("button", { type: "submit" }, "Use this key"),
      key.get() && make("button.quiet", { type: "button", onclick: () => use("") }, "Forget it"),
      make("button.quiet", { type: "button", onclick: () => dialog.close() }, "Cancel"),
    ),
  );
  dialog.replaceChildren(form);
  dialog.showModal();
}

function showKey() {
  const button = document.querySelector("#key");
  button.textContent = key.get() ? "API key set" : "API key";
}

document.querySelector("#pages").append(
  ...pages.filter((page) => !page.isLinked).map((page) => make("li", make("a", { href: link([page.name]), "data-page": page.name }, page.title))),
);
document.querySelector("#key").addEventListener("click", askForKey);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
setInterval(() => !document.hidden && updateMoments(main), MOMENTS_S * 1000);
showKey();
show();
