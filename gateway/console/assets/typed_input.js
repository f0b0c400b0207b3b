// Keeps what was typed into a form and not sent: another page, another key or a reload of this tab loses nothing.

const PREFIX = "callgate.typed.";
const shownForms = new Set();

/** Forget what was typed into all forms: the user leaves without a key, and somebody else may use this tab. */
export function forgetTyped() {
  for (const form of shownForms) form.forget();
  for (const at of Object.keys(sessionStorage)) if (at.startsWith(PREFIX)) sessionStorage.removeItem(at);
}

/**
 * Put what was kept under `name` into `controls`, and keep it again once `signal` is aborted: the user leaves. Gives
 * whether something was put there, and `forget`, for a form that was sent or given up.
 */
export function keepTyped(name, controls, signal) {
  const at = PREFIX + name;
  const kept = JSON.parse(sessionStorage.getItem(at) ?? "null");
  let isChanged = kept !== null;
  const keep = () => {
    if (!isChanged) return;
    const values = Object.entries(controls).map(([key, control]) => [key, valueOf(control)]);
    try {
      sessionStorage.setItem(at, JSON.stringify(Object.fromEntries(values)));
    } catch {
      sessionStorage.removeItem(at); // it is larger than what a browser keeps
    }
  };
  for (const [key, control] of Object.entries(controls)) {
    if (kept && key in kept) write(control, kept[key]);
    control.addEventListener("input", () => { isChanged = true; });
  }
  const form = {
    isKept: kept !== null,
    forget() {
      isChanged = false;
      sessionStorage.removeItem(at);
    },
  };
  shownForms.add(form);
  addEventListener("pagehide", keep, { signal });
  signal.addEventListener("abort", () => {
    keep();
    shownForms.delete(form);
  });
  return form;
}

const valueOf = (control) => (control.type === "checkbox" ? control.checked : control.value);

function write(control, value) {
  if (control.type === "checkbox") control.checked = value;
  else if (control.tagName !== "SELECT" || [...control.options].some((option) => option.value === value)) control.value = value;
}
