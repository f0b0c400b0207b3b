// What differs between two texts, line by line.

const CONTEXT = 3;
export const MAX_LINES = 1500;

/**
 * The lines of two texts as `{ kind, sign, text }`, of the kinds `same`, `removed`, `added`, `left-out`, and
 * `not-compared` for the rest of what differs. Only `CONTEXT` equal lines stay around each difference.
 */
export function differences(before, after) {
  const lines = aligned(before, after);
  const near = new Set();
  lines.forEach((line, at) => {
    if (line.kind !== "same") for (let each = at - CONTEXT; each <= at + CONTEXT; each += 1) near.add(each);
  });
  const shown = [];
  lines.forEach((line, at) => {
    if (near.has(at)) shown.push(line);
    else if (shown.at(-1)?.kind !== "left-out") shown.push({ kind: "left-out", sign: "", text: "…" });
  });
  return shown;
}

/**
 * All lines, or words, by a longest common subsequence. What both have at their ends is not in its table, and of what is
 * between, only the first `MAX_LINES` are.
 */
export function aligned(before, after) {
  let start = 0;
  while (start < Math.min(before.length, after.length) && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < Math.min(before.length, after.length) - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const same = (text) => ({ kind: "same", sign: " ", text });
  const [old, current] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const isCut = Math.max(old.length, current.length) > MAX_LINES;
  return [
    ...before.slice(0, start).map(same),
    ...middle(old.slice(0, MAX_LINES), current.slice(0, MAX_LINES)),
    ...(isCut ? [{ kind: "not-compared", sign: "", text: "… the rest of what differs is not compared here" }] : []),
    ...before.slice(before.length - end).map(same),
  ];
}

function middle(before, after) {
  const width = after.length + 1;
  const longest = new Uint16Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = before[i] === after[j]
        ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push({ kind: "same", sign: " ", text: before[i] });
      [i, j] = [i + 1, j + 1];
    } else if (j >= after.length || (i < before.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      lines.push({ kind: "removed", sign: "−", text: before[i++] });
    } else {
      lines.push({ kind: "added", sign: "+", text: after[j++] });
    }
  }
  return lines;
}
