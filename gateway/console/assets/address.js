// Where the user is: the part of the address behind `#`, as `#/toolsets/weather?tool=forecast`.

/** The link to an address; `null` in the query leaves a name out. */
export function link(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value != null && value !== "");
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${search}`;
}

/** What an address has: the page, the path behind it, and the query. */
export function readAddress(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...rest] = path.split("/").map(decoded);
  return { page, path: rest.filter((part) => part !== ""), query: Object.fromEntries(new URLSearchParams(query)) };
}

/** Go to an address, or with `replace` without another entry in the browser's history. */
export function go(path, query = {}, { replace = false } = {}) {
  const hash = link(path, query);
  if (!replace) location.hash = hash;
  else history.replaceState(null, "", hash);
}

/** Show the current address once more, for what has changed there. */
export function reload() {
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
