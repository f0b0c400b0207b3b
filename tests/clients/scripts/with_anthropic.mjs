// @anthropic-ai/sdk: its tool runner runs the loop. The base URL has no `/v1`.

import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { FIRST, Refund, Review, SECOND, URL, check, refundPayment, step } from "./scenario.mjs";

const client = new Anthropic({ baseURL: URL, apiKey: "none-needed" });
const tool = betaZodTool({
  name: "refund_payment",
  description: "Refund a payment.",
  inputSchema: Refund,
  run: (sent) => JSON.stringify(refundPayment(sent)),
});
const settings = { model: "demo", max_tokens: 300, temperature: 0 };

async function converse(messages, ask, stream) {
  const runner = client.beta.messages.toolRunner({
    ...settings,
    messages: [...messages, { role: "user", content: ask }],
    tools: [tool],
    stream,
    max_iterations: 4,
  });
  const last = await runner.runUntilDone();
  check(last.content.length > 0, "no answer");
  return [...runner.params.messages];
}

let messages = [];
await step("calls", 1, async () => (messages = await converse([], FIRST, false)));
await step("second turn", 1, () => converse(messages, SECOND, false));
await step("streamed", 2, async () => converse(await converse([], FIRST, true), SECOND, true));
await step("structured", 0, async () => {
  const answered = await client.messages.parse({
    ...settings,
    messages: [{ role: "user", content: FIRST }],
    output_config: { format: zodOutputFormat(Review) },
  });
  Review.parse(answered.parsed_output);
});
