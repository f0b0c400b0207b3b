// Shows a part of a page anew, so that the user notices only what changed: the focus, what is being typed into a search,
// and how far the list of choices is scrolled stay.

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

/** Replace what is in `element`. If what had the focus is gone, the heading gets it, so that Tab goes on from there. */
export function renew(element, content) {
  const before = document.activeElement;
  const hadFocus = element.contains(before) && before !== element;
  const list = element.querySelector(".choices");
  const scrolledTo = list?.scrollTop ?? 0;
  element.replaceChildren(...content);
  keepScrolled(list, scrolledTo, element.querySelector(".choices"));
  if (!hadFocus) return;
  const now = [...element.querySelectorAll(FOCUSABLE)].find((each) => nameOf(each) === nameOf(before));
  if (now?.type === "search") keepSearch(before, now);
  else (now ?? headingOf(element))?.focus({ preventScroll: true });
}

/** Show the current choice of a list: it stays where the list before had it, if that began with the same choice. */
function keepScrolled(before, scrolledTo, now) {
  if (!now) return;
  if (before?.firstChild?.textContent === now.firstChild?.textContent) now.scrollTop = scrolledTo;
  const current = now.querySelector("[aria-current]");
  if (current) {
    const [top, end] = [current.offsetTop - now.offsetTop, current.offsetTop - now.offsetTop + current.offsetHeight];
    if (top < now.scrollTop || end > now.scrollTop + now.clientHeight) now.scrollTop = top - now.clientHeight / 3;
  }
}

/** Put what the user types into the field that replaced the one before. */
function keepSearch(before, now) {
  now.focus();
  const isBehind = now.value !== before.value.trim();
  now.value = before.value;
  if (isBehind) now.dispatchEvent(new Event("input"));
}

/** What tells a control from the others of a page. */
function nameOf(control) {
  const { tagName } = control;
  return `${tagName} ${control.getAttribute("href") ?? control.getAttribute("aria-label") ?? (control.id || control.textContent)}`;
}

function headingOf(element) {
  const heading = element.querySelector("h1") ?? document.querySelector("h1");
  if (heading) heading.tabIndex = -1;
  return heading;
}
