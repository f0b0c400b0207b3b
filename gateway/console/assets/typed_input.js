// Keeps what was typed into a form and not sent: another page, another key or a reload of this tab loses nothing.

/**
 * Put what was kept under `name` into `controls`, and keep it again once `signal` is aborted: the user leaves. Gives
 * whether something was put there, and `forget`, for a form that was sent or given up.
 */
export function keepTyped(name, controls, signal) {
  const at = `callgate.typed.${name}`;
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
  signal.addEventListener("abort", keep);
  addEventListener("pagehide", keep, { signal });
  return {
    isKept: kept !== null,
    forget() {
      isChanged = false;
      sessionStorage.removeItem(at);
    },
  };
}

const valueOf = (control) => (control.type === "checkbox" ? control.checked : control.value);

function write(control, value) {
  if (control.type === "checkbox") control.checked = value;
  else if (control.tagName !== "SELECT" || [...control.options].some((option) => option.value === value)) control.value = value;
}
