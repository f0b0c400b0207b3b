// The mask inspector: the tokens of an answer as chips, and what is known of the one that is chosen.

import { make } from "../elements.js";
import { detailsOf, visibleText } from "./details.js";
import { schemaOf } from "./schema.js";

/** How a token came about: the word of the API, and what it means. */
export const CAUSES = {
  free: "the model's first choice was allowed",
  rescued: "the model's first choice was removed",
  forced: "nothing else was allowed",
  closed: "completed within the budget",
};

/** The inspector of one answer, which may call the tools, or follow the schema of an answer, if it has one. */
export function inspector(tools, answerSchema = null) {
  const tokens = [];
  const chips = make("div.chips", { role: "listbox", "aria-label": "Tokens of the answer", "aria-orientation": "horizontal" });
  const legend = make("ul.legend");
  const details = make("section.card.details", { "aria-live": "polite", "aria-label": "The chosen token" });
  const schema = schemaOf(tools, answerSchema);
  let chosen = null;

  function choose(index, { focus = false } = {}) {
    if (chosen !== null) chips.children[chosen].setAttribute("aria-selected", "false");
    if (chosen !== null) chips.children[chosen].tabIndex = -1;
    chosen = index;
    const chip = chips.children[index];
    chip.setAttribute("aria-selected", "true");
    chip.tabIndex = 0;
    if (focus) chip.focus({ preventScroll: false });
    details.replaceChildren(...detailsOf(tokens[index], index, tokens.length));
    schema.mark(tokens[index].place);
    panels.hidden = false;
  }

  function move(event) {
    const last = tokens.length - 1;
    const steps = { ArrowLeft: chosen - 1, ArrowUp: chosen - 1, ArrowRight: chosen + 1, ArrowDown: chosen + 1, Home: 0, End: last };
    if (!(event.key in steps)) return;
    event.preventDefault();
    choose(Math.min(last, Math.max(0, steps[event.key])), { focus: true });
  }

  chips.addEventListener("keydown", move);
  const panels = make("div.panels", { hidden: true }, details, schema.element);
  const element = make(
    "section.inspector",
    { hidden: true, "aria-label": "Mask inspector" },
    make("div.card", make("h2", "Tokens"), legend, chips),
    panels,
  );

  return {
    element,
    add(more) {
      for (const token of more) {
        const index = tokens.push(token) - 1;
        chips.append(chipOf(token, () => choose(index)));
      }
      if (more.length) {
        element.hidden = false;
        legend.replaceChildren(...legendOf(tokens));
      }
    },
    end() {
      if (!tokens.length) return;
      if (chosen === null) choose(mostTelling(tokens));
    },
  };
}

function chipOf(token, onclick) {
  const chip = make(
    `span.chip.${token.cause}.${token.place.part}`,
    { role: "option", "aria-selected": "false", tabindex: "-1", onclick, "aria-label": `${visibleText(token.text)}, ${token.cause}` },
    make("span", visibleText(token.text)),
  );
  chip.style.setProperty("--removed", token.mass_removed ?? 0);
  return chip;
}

function legendOf(tokens) {
  return Object.entries(CAUSES).map(([cause, meaning]) => {
    const count = tokens.filter((token) => token.cause === cause).length;
    return count > 0 && make(
      "li", make(`span.chip.${cause}`, make("span", cause)), make("span.number", `${count}`), make("span.soft", meaning),
    );
  }).filter(Boolean);
}

/** The token that shows most: the first one of a value that was rescued, or any of which there are candidates. */
function mostTelling(tokens) {
  const worth = ({ cause, place, candidates }) => (
    (candidates.length > 0) + 2 * (cause === "rescued") + 4 * (cause === "rescued" && place.writes === "value")
  );
  return tokens.reduce((best, token, index) => (worth(token) > worth(tokens[best]) ? index : best), 0);
}
