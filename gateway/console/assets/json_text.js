// JSON text and its lines: where in a text a JSON pointer leads, and a value written one line a keyword.

/**
 * Read JSON and where its values stand: `{ value, lines }`, or `{ error: { line, reason } }`.
 *
 * `lines` maps the JSON pointer of every value to the line, counted from 1, on which its key stands, or the value
 * itself where it has none.
 */
export function readJSON(text) {
  const reader = new Reader(text);
  try {
    const value = reader.document();
    return { value, lines: reader.lines };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { error: { line: lineOf(text, reader.at), reason: error.message } };
  }
}

/** The line of the nearest place that a pointer leads to: its own, or that of what should hold it. */
export function lineAt(lines, pointer) {
  let place = pointer;
  while (place && !lines.has(place)) place = place.slice(0, place.lastIndexOf("/"));
  return lines.get(place) ?? 1;
}

/**
 * A value as lines: `{ pointer, text, depth, key }`, the line of each value at its pointer. Lines that only close
 * something have the pointer null.
 */
export function writtenLines(value, pointer = "", depth = 0, key = null, comma = "") {
  const line = (text, at = pointer, name = key) => ({ pointer: at, text, depth, key: name });
  const isList = Array.isArray(value);
  const entries = value !== null && typeof value === "object" ? Object.entries(value) : [];
  const [open, close] = isList ? "[]" : "{}";
  if (value === null || typeof value !== "object") return [line(JSON.stringify(value) + comma)];
  if (!entries.length) return [line(open + close + comma)];
  if (isList && entries.every(([, each]) => each === null || typeof each !== "object")) {
    const whole = `[${value.map((each) => JSON.stringify(each)).join(", ")}]${comma}`;
    if (whole.length <= 100) return [line(whole)];
  }
  const inside = entries.flatMap(([name, each], index) => writtenLines(
    each, child(pointer, name), depth + 1, isList ? null : name, index < entries.length - 1 ? "," : "",
  ));
  return [line(open), ...inside, { pointer: null, text: close + comma, depth, key: null }];
}

/** The pointer of what stands under a key. */
export function child(pointer, key) {
  return `${pointer}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

class Fault extends Error {}

const MAX_DEPTH = 500;

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.line = 1;
    this.lines = new Map();
  }

  document() {
    this.space();
    const value = this.value("", 0);
    this.space();
    if (this.at < this.text.length) throw new Fault("something stands behind the end");
    return value;
  }

  value(pointer, depth) {
    if (depth > MAX_DEPTH) throw new Fault(`it is nested more than ${MAX_DEPTH} deep`);
    if (!this.lines.has(pointer)) this.lines.set(pointer, this.line);
    const first = this.text[this.at];
    if (first === "{") return this.object(pointer, depth);
    if (first === "[") return this.list(pointer, depth);
    if (first === '"') return this.string();
    return this.word();
  }

  object(pointer, depth) {
    const found = {};
    this.at += 1;
    this.space();
    if (this.takes("}")) return found;
    for (;;) {
      if (this.text[this.at] !== '"') throw new Fault("a key in double quotes should stand here");
      const keyLine = this.line;
      const key = this.string();
      this.space();
      if (!this.takes(":")) throw new Fault(`':' should stand behind the key ${JSON.stringify(key)}`);
      this.space();
      this.lines.set(child(pointer, key), keyLine);
      const value = this.value(child(pointer, key), depth + 1);
      Object.defineProperty(found, key, { value, enumerable: true, configurable: true, writable: true });
      this.space();
      if (this.takes("}")) return found;
      if (!this.takes(",")) throw new Fault("',' or '}' should stand here");
      this.space();
    }
  }

  list(pointer, depth) {
    const found = [];
    this.at += 1;
    this.space();
    if (this.takes("]")) return found;
    for (;;) {
      found.push(this.value(child(pointer, found.length), depth + 1));
      this.space();
      if (this.takes("]")) return found;
      if (!this.takes(",")) throw new Fault("',' or ']' should stand here");
      this.space();
    }
  }

  string() {
    const whole = /"(?:[^"\\\n]|\\.)*"/y;
    return this.literal(whole, "this text has no end, or an escape that JSON does not know");
  }

  word() {
    const reason = this.at < this.text.length ? "no JSON value begins here" : "the text ends too early";
    return this.literal(/true|false|null|-?\d[\d.eE+-]*/y, reason);
  }

  literal(pattern, reason) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found) throw new Fault(reason);
    try {
      const value = JSON.parse(found[0]);
      this.at = pattern.lastIndex;
      return value;
    } catch {
      throw new Fault(reason);
    }
  }

  takes(mark) {
    if (this.text[this.at] !== mark) return false;
    this.at += 1;
    return true;
  }

  space() {
    while (this.at < this.text.length && " \t\r\n".includes(this.text[this.at])) {
      if (this.text[this.at] === "\n") this.line += 1;
      this.at += 1;
    }
  }
}

function lineOf(text, at) {
  return text.slice(0, at).split("\n").length;
}
