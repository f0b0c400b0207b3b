// JSON text and its lines: the line that a JSON pointer leads to, a value as lines, and parts of a text.

/**
 * Read JSON and where its values stand: `{ value, lines }`, or `{ error: { line, reason } }`.
 *
 * `lines` maps the JSON pointer of every value to the line, counted from 1, on which its key stands, or the value
 * itself where it has none.
 */
export function readJSON(text) {
  const reader = new Reader(text);
  try {
    const value = reader.readDocument();
    return { value, lines: reader.lines };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { error: { line: lineOf(text, reader.at), reason: error.message } };
  }
}

/** The line of the value at a pointer or, if there is none, of the innermost value around it. */
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

/** The pointer of the value under a key. */
export function child(pointer, key) {
  return `${pointer}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const OPENING = new Set("{[");
const CLOSING = new Set("}]");

/**
 * The texts of a list's items. Texts, unlike JavaScript's values, keep all digits of large numbers, and the order
 * of keys that look like numbers.
 */
export function itemTexts(text) {
  const found = [];
  let depth = 0;
  let begin = 0;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (CLOSING.has(token)) depth -= 1;
    if (CLOSING.has(token) ? depth === 0 : token === "," && depth === 1) {
      found.push(text.slice(begin, index));
      begin = index + 1;
    }
    if (OPENING.has(token)) {
      if (depth === 0) begin = index + 1;
      depth += 1;
    }
  }
  return found.filter((item) => item.trim());
}

/** The texts of an object's values, by their keys. */
export function memberTexts(text) {
  return new Map(itemTexts(text).map((member) => {
    const [before, key] = /^\s*("(?:[^"\\]|\\.)*")\s*:/.exec(member);
    return [JSON.parse(key), member.slice(before.length)];
  }));
}

/** JSON text with one value a line, indented by its depth. */
export function indented(text) {
  let written = "";
  let depth = 0;
  let before = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (CLOSING.has(token)) depth -= 1;
    const isFirst = OPENING.has(before);
    if (CLOSING.has(token) ? !isFirst : isFirst || before === ",") written += `\n${"  ".repeat(depth)}`;
    written += token === ":" ? ": " : token;
    if (OPENING.has(token)) depth += 1;
    before = token;
  }
  return written;
}

/** What is wrong with the text, where the reader is. */
class Fault extends Error {}

const MAX_DEPTH = 500;

/** Reads one JSON text by recursive descent. */
class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.line = 1;
    this.lines = new Map();
  }

  readDocument() {
    this.skipSpace();
    const value = this.readValue("", 0);
    this.skipSpace();
    if (this.at < this.text.length) throw new Fault("there is more text after the JSON value");
    return value;
  }

  readValue(pointer, depth) {
    if (depth > MAX_DEPTH) throw new Fault(`it is nested more than ${MAX_DEPTH} deep`);
    if (!this.lines.has(pointer)) this.lines.set(pointer, this.line);
    const first = this.text[this.at];
    if (first === "{") return this.readObject(pointer, depth);
    if (first === "[") return this.readArray(pointer, depth);
    if (first === '"') return this.readString();
    return this.readWord();
  }

  readObject(pointer, depth) {
    const found = {};
    this.at += 1;
    this.skipSpace();
    if (this.take("}")) return found;
    for (;;) {
      if (this.text[this.at] !== '"') throw new Fault("a key in double quotes must come here");
      const keyLine = this.line;
      const key = this.readString();
      this.skipSpace();
      if (!this.take(":")) throw new Fault(`':' must come after the key ${JSON.stringify(key)}`);
      this.skipSpace();
      this.lines.set(child(pointer, key), keyLine);
      const value = this.readValue(child(pointer, key), depth + 1);
      Object.defineProperty(found, key, { value, enumerable: true, configurable: true, writable: true });
      this.skipSpace();
      if (this.take("}")) return found;
      if (!this.take(",")) throw new Fault("',' or '}' must come here");
      this.skipSpace();
    }
  }

  readArray(pointer, depth) {
    const found = [];
    this.at += 1;
    this.skipSpace();
    if (this.take("]")) return found;
    for (;;) {
      found.push(this.readValue(child(pointer, found.length), depth + 1));
      this.skipSpace();
      if (this.take("]")) return found;
      if (!this.take(",")) throw new Fault("',' or ']' must come here");
      this.skipSpace();
    }
  }

  readString() {
    const whole = /"(?:[^"\\\n]|\\.)*"/y;
    return this.readLiteral(whole, "this string has no closing quote, or an escape that JSON does not have");
  }

  readWord() {
    const reason = this.at < this.text.length ? "no JSON value begins here" : "the text ends where a value must come";
    return this.readLiteral(/true|false|null|-?\d[\d.eE+-]*/y, reason);
  }

  readLiteral(pattern, reason) {
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

  take(mark) {
    if (this.text[this.at] !== mark) return false;
    this.at += 1;
    return true;
  }

  skipSpace() {
    while (this.at < this.text.length && " \t\r\n".includes(this.text[this.at])) {
      if (this.text[this.at] === "\n") this.line += 1;
      this.at += 1;
    }
  }
}

function lineOf(text, at) {
  return text.slice(0, at).split("\n").length;
}
