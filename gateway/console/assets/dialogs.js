// Dialogs that ask before something is done.

import { Problem } from "./api.js";
import { reload } from "./address.js";
import { make, nodes } from "./elements.js";
import { problemBox } from "./parts.js";

/**
 * A button that asks before it does `work`. What `work` returns is shown in the dialog, until the user closes it. `what`
 * tells the button from others with the same word.
 */
export function askingButton(word, tone, title, text, work, what = null) {
  const label = what && `${word} ${what}`;
  return make(`button.${tone}`, { type: "button", onclick: () => ask(word, tone, title, text, work), "aria-label": label }, word);
}

function ask(word, tone, title, text, work) {
  const dialog = make("dialog", { "aria-label": title });
  const close = () => { dialog.close(); };
  const open = () => {
    if (dialog.open) return;
    document.body.append(dialog);
    dialog.showModal();
  };
  dialog.addEventListener("close", () => { dialog.remove(); });
  const sure = make(`button.${tone}`, { type: "button" }, word);
  sure.addEventListener("click", async () => {
    sure.disabled = true;
    try {
      const shown = await work();
      if (!shown) return close();
      dialog.replaceChildren(...nodes(shown), make("div.actions", make("button", { type: "button", onclick: close }, "Done")));
      dialog.addEventListener("close", reload, { once: true });
      open(); // the user may have closed it meanwhile, and a new secret is shown only here
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      dialog.replaceChildren(problemBox(error, make("button.quiet", { type: "button", onclick: close }, "Close")));
      open();
    }
    return undefined;
  });
  const cancel = make("button.quiet", { type: "button", onclick: close }, "Cancel");
  dialog.append(make("h2", title), make("p", text), make("div.actions", sure, cancel));
  open();
}
