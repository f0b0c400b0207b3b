// Calls the API. The key stays in this tab's session storage, and goes to this gateway only.

const KEY = "callgate.key";

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

/** An error of the API, of whichever shape: problem details, OpenAI's or Anthropic's error object. */
export class Problem extends Error {
  /**
   * `status` is 0 if no answer came. `faults` are what is wrong in a toolset, each with `tool`, `pointer`,
   * `keyword`, `reason` and `suggestion`. `latest` is the last revision of a deleted toolset. `ways` are links that lead
   * on from here.
   */
  constructor(status, title, detail, { faults = [], requestId = null, latest = null } = {}) {
    super(detail || title);
    Object.assign(this, { status, title, detail, faults, requestId, latest, ways: [] });
  }

  get needsKey() {
    return this.status === 401;
  }
}

/** The value that a path answers with, such as `get("v1/toolsets", { limit: 20 })`. */
export async function get(path, query = {}, signal = undefined) {
  const response = await send("GET", withQuery(path, query), { signal });
  return whole(response.json(), signal);
}

/** All items of a listing, page by page, such as `getAll("v1/toolsets", "toolsets")`. */
export async function getAll(path, name, signal = undefined) {
  const found = [];
  let after = null;
  do {
    const page = await get(path, { limit: 1000, after }, signal);
    found.push(...page[name]);
    after = page.next;
  } while (after);
  return found;
}

/** The same for what changes something; `body` is a value or JSON text. An answer without a body is null. */
export async function call(method, path, { body, headers, signal } = {}) {
  const response = await send(method, path, { body, headers, signal });
  return response.status === 204 ? null : whole(response.json(), signal);
}

/** The text that a path answers with. */
export async function getText(path, query = {}, signal = undefined) {
  const response = await send("GET", withQuery(path, query), { signal });
  return whole(response.text(), signal);
}

/** What a body is read as; one that breaks off is a `Problem`. */
async function whole(reading, signal) {
  try {
    return await reading;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "The answer broke off", "The gateway may have been stopped, or you may be offline.");
  }
}

/**
 * The events of a stream, as they come; it ends at `[DONE]`. Stops when `signal` does. `onBegin` is called with the id of
 * the request once the answer begins.
 */
export async function* stream(path, { body, headers, signal, onBegin = () => {} } = {}) {
  const response = await send("POST", path, { body, headers, signal });
  onBegin(response.headers.get("X-Request-ID"));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value: piece, done: isDone } = await whole(reader.read(), signal);
    if (isDone) return;
    const lines = (text + piece).split("\n");
    text = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      yield JSON.parse(line.slice(6));
    }
  }
}

/** Send a request, and give its answer; any other than a success is raised as a `Problem`. */
export async function send(method, path, { body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (key.get()) sent.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { method, headers: sent, body: text, signal, credentials: "omit" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "The gateway does not answer", "It may be restarting, or you may be offline.");
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response) {
  const found = await response.json().catch(() => ({}));
  const inner = found.error ?? {};
  const title = found.title ?? inWords(inner.code ?? inner.type ?? response.statusText);
  return new Problem(response.status, title, found.detail ?? inner.message ?? "", {
    faults: found.errors ?? [],
    requestId: response.headers.get("X-Request-ID"),
    latest: found.latest,
  });
}

/** A code as words: `unknown_grammar` is "Unknown grammar". */
export function inWords(code) {
  return code.charAt(0).toUpperCase() + code.slice(1).replaceAll("_", " ");
}

function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value != null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}
