// AI SDK, anthropic provider: the Messages API.

import { createAnthropic } from "@ai-sdk/anthropic";
import { run } from "./ai_sdk.mjs";
import { URL } from "./scenario.mjs";

const anthropic = createAnthropic({ baseURL: `${URL}/v1`, apiKey: "none-needed" });
await run(anthropic("demo"));
