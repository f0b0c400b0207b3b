// AI SDK, default provider: the Responses API; a second turn refers to the items of the first.

import { createOpenAI } from "@ai-sdk/openai";
import { run } from "./ai_sdk.mjs";
import { URL } from "./scenario.mjs";

const openai = createOpenAI({ baseURL: `${URL}/v1`, apiKey: "none-needed" });
await run(openai("demo"));
