// How an answer ended, how it was selected, and the way to where its time went.

import { make } from "../elements.js";
import { count } from "../parts.js";
import { link } from "../address.js";
import { percent } from "./details.js";

const ENDS = {
  stop: "The model ended the answer.",
  tool_calls: "The model called a tool.",
  length: "The answer ended at the most tokens that it may have.",
};

/** What is told of an answer besides its tokens; `isSearched` if it was not drawn but searched for, at temperature 0. */
export class Outcome {
  constructor(isSearched) {
    Object.assign(this, { isSearched, requestId: null, reason: null, closedBy: null, selection: null });
  }

  add({ choices, callgate }) {
    this.reason = choices[0]?.finish_reason ?? this.reason;
    this.closedBy = callgate?.closed_by ?? this.closedBy;
    this.selection = callgate?.selections?.[0] ?? this.selection;
  }

  parts(isStopped) {
    const said = [
      isStopped && this.reason === null && "You stopped the answer.",
      this.closedBy ? "The budget closer completed the answer." : ENDS[this.reason],
    ].filter(Boolean);
    return [
      said.length > 0 && make("p", said.join(" ")),
      this.selection && make("p.soft", selected(this.selection, this.isSearched)),
      this.requestId && make("p.soft", make("a", { href: link(["requests", this.requestId]) }, "Where its time and its tokens went")),
    ].filter(Boolean);
  }
}

/** How the answer was selected from several. */
function selected({ strategy, answers, accepted: isAccepted, log_weight: logWeight, computed_tokens: computed }, isSearched) {
  const cost = computed == null ? "" : `, for which the model computed ${count(computed, "token")}`;
  const found = isSearched
    ? ["A better valid answer may exist.", `It is proven that no valid answer is better${strategy === "accept" ? " by more than a quarter" : ""}.`]
    : ["This one was chosen by weight.", "This one is an exact draw from the model's valid answers."];
  const left = logWeight == null ? "" : ` The masks left ${percent(Math.exp(logWeight))} of its probability.`;
  return `${strategy} began ${count(answers, "answer")}${cost}. ${found[Number(isAccepted)]}${left}`;
}
