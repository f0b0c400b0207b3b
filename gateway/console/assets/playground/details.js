// The details of one token: how it came about, and the model's candidates, those that the mask removed among them.

import { make, visible } from "../elements.js";

const FORMAT = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });

export const percent = (value) => (value > 0 && value < 0.001 ? "<0.1%" : FORMAT.format(value));

/** A token's text in which every character can be seen, with marks for spaces, line ends and tabs. */
export function visibleText(text) {
  return text === "" ? "end" : visible(text.replaceAll(" ", "·").replaceAll("\n", "⏎").replaceAll("\t", "⇥"));
}

export function detailsOf(token, index, total) {
  return [
    make("p.soft.small", `Token ${index + 1} of ${total}`),
    make("p.token", make(`span.chip.${token.cause}`, make("span", visibleText(token.text))), make("strong", token.cause)),
    make("p", reason(token)),
    make("p.soft", placeText(token.place)),
    token.candidates.length > 0 && [candidates(token), removed(token)],
  ].flat().filter(Boolean);
}

function reason({ cause, candidates }) {
  const first = candidates.length > 0 && make("code", visibleText(candidates[0].text));
  switch (cause) {
    case "rescued":
      return make("span", "The model's first choice was ", first, `, with ${percent(candidates[0].probability)}. `
        + "The grammar does not allow it here, so the mask removed it.");
    case "closed":
      return "The budget was running out, so the engine completed the answer in the shortest valid way.";
    case "forced":
      return candidates.length
        ? "The grammar allowed only this token, and the model wanted it too."
        : "The grammar allows only this text here, so the model was not asked.";
    default:
      return "The grammar allowed the model's first choice, and the token was drawn from what was allowed.";
  }
}

function placeText({ part, tool, pointer, writes }) {
  if (writes) {
    const at = make("code", pointer || (part === "text" ? "the answer" : "the arguments"));
    const what = { key: "the key of", value: "the value at", punctuation: "punctuation of" }[writes];
    return make("span", `It writes ${what} `, at, ".");
  }
  switch (part) {
    case "syntax":
      return make("span", "It is part of the syntax ", tool ? ["around a call of ", make("code", tool)] : "around calls", ".");
    case "end":
      return "It ends the output.";
    default:
      return `It is part of the ${part}.`;
  }
}

function candidates(token) {
  const highest = Math.max(...token.candidates.map((each) => each.probability), 1e-9);
  return make(
    "div",
    make("h3", "What the model wanted"),
    make("ol.candidates", token.candidates.map((each) => candidate(each, each.id === token.id, highest))),
  );
}

function candidate({ text, probability, removed: isRemoved }, isWritten, highest) {
  const kind = isRemoved ? "removed" : isWritten ? "written" : "allowed";
  return make(
    `li.${kind}`,
    make("code", isRemoved ? make("s", visibleText(text)) : visibleText(text)),
    make("span.bar", { style: { "--width": probability / highest } }),
    make("span.number", percent(probability)),
    make("span.said", kind === "allowed" ? make("span.hidden", kind) : kind),
  );
}

function removed({ mass_removed: mass }) {
  return make(
    "div.mass",
    make("span.bar", { style: { "--width": mass }, role: "img", "aria-label": `${percent(mass)} removed` }),
    make("p.small", make("strong", percent(mass)), " of the model's probability was removed by the mask"),
  );
}
