// AI SDK, the default provider's Chat Completions.

import { createOpenAI } from "@ai-sdk/openai";
import { run } from "./ai_sdk.mjs";
import { URL } from "./scenario.mjs";

const openai = createOpenAI({ baseURL: `${URL}/v1`, apiKey: "none-needed" });
await run(openai.chat("demo"));
