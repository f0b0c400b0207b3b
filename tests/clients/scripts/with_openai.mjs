// openai: its tool runner runs the loop.

import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { FIRST, Refund, Review, SECOND, URL, check, refundPayment, step } from "./scenario.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: "none-needed" });
const tool = zodFunction({
  name: "refund_payment",
  description: "Refund a payment.",
  parameters: Refund,
  function: (sent) => JSON.stringify(refundPayment(sent)),
});

async function converse(messages, ask, stream) {
  const asked = [...messages, { role: "user", content: ask }];
  const runner = client.chat.completions.runTools({
    model: "demo",
    temperature: 0,
    messages: asked,
    tools: [tool],
    stream,
  });
  check(await runner.finalContent(), "no answer");
  return runner.messages;
}

let messages = [];
await step("calls", 1, async () => (messages = await converse([], FIRST, false)));
await step("second turn", 1, () => converse(messages, SECOND, false));
await step("streamed", 2, async () => converse(await converse([], FIRST, true), SECOND, true));
await step("structured", 0, async () => {
  const answered = await client.chat.completions.parse({
    model: "demo",
    messages: [{ role: "user", content: FIRST }],
    response_format: zodResponseFormat(Review, "review"),
  });
  Review.parse(answered.choices[0].message.parsed);
});
