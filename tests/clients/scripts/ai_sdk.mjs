// The AI SDK's scenario, the same for every provider.

import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import { FIRST, Refund, Review, SECOND, check, refundPayment, step } from "./scenario.mjs";

export async function run(model) {
  const settings = {
    model,
    temperature: 0,
    tools: {
      refund_payment: tool({
        description: "Refund a payment.",
        inputSchema: Refund,
        execute: async (sent) => refundPayment(sent),
      }),
    },
    stopWhen: stepCountIs(4),
    maxRetries: 0,
  };

  async function converse(messages, ask) {
    messages.push({ role: "user", content: ask });
    const { text, response } = await generateText({ ...settings, messages });
    messages.push(...response.messages);
    check(text, "no answer");
  }

  async function converseStreamed(messages, ask) {
    messages.push({ role: "user", content: ask });
    const answer = streamText({ ...settings, messages, onError: ({ error }) => (failure = error) });
    let failure;
    await answer.consumeStream();
    if (failure) throw failure;
    messages.push(...(await answer.response).messages);
    check(await answer.text, "no answer");
  }

  const messages = [];
  await step("calls", 1, () => converse(messages, FIRST));
  await step("second turn", 1, () => converse(messages, SECOND));
  await step("streamed", 2, async () => {
    const others = [];
    await converseStreamed(others, FIRST);
    await converseStreamed(others, SECOND);
  });
  await step("structured", 0, async () => {
    const { output } = await generateText({ model, prompt: FIRST, output: Output.object({ schema: Review }) });
    Review.parse(output);
  });
}
