// OpenAI Agents SDK for JavaScript: the Responses API.

import { Agent, MemorySession, OpenAIProvider, Runner, tool } from "@openai/agents";
import { FIRST, Refund, Review, SECOND, URL, check, refundPayment, step } from "./scenario.mjs";

const runner = new Runner({
  modelProvider: new OpenAIProvider({ baseURL: `${URL}/v1`, apiKey: "none-needed" }),
  tracingDisabled: true,
});
const refund = tool({
  name: "refund_payment",
  description: "Refund a payment.",
  parameters: Refund,
  execute: async (sent) => JSON.stringify(refundPayment(sent)),
});
const clerk = new Agent({ name: "clerk", model: "demo", tools: [refund], modelSettings: { temperature: 0 } });
const reviewer = new Agent({ name: "reviewer", model: "demo", outputType: Review });

async function converse(session, ask, stream) {
  const result = await runner.run(clerk, ask, { session, stream });
  if (stream) await result.completed;
  check(result.finalOutput, "no answer");
}

const session = new MemorySession();
await step("calls", 1, () => converse(session, FIRST, false));
await step("second turn", 1, () => converse(session, SECOND, false));
await step("streamed", 2, async () => {
  const another = new MemorySession();
  await converse(another, FIRST, true);
  await converse(another, SECOND, true);
});
await step("structured", 0, async () => Review.parse((await runner.run(reviewer, FIRST)).finalOutput));
