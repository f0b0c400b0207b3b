// AI SDK, the provider for compatible servers.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { run } from "./ai_sdk.mjs";
import { URL } from "./scenario.mjs";

const callgate = createOpenAICompatible({
  name: "callgate",
  baseURL: `${URL}/v1`,
  apiKey: "none-needed",
  supportsStructuredOutputs: true, // otherwise it sends no schema of an answer
});
await run(callgate("demo"));
