// What every JavaScript script asks, the tool that it runs, and how it tells what happened.

import { z } from "zod";

export const URL = process.env.CALLGATE_URL;
export const FIRST = "Refund a payment: payment pay_4821, reason duplicate.";
export const SECOND = "Refund a payment: payment pay_1765, reason fraud.";

export const Refund = z.object({
  payment: z.string().describe("The payment's id."),
  reason: z.string().describe("Why it is refunded."),
});

// Every value is of a few, so that the answer of a small model ends.
export const Review = z.object({
  reason: z.enum(["duplicate", "fraud", "other"]),
  is_urgent: z.boolean(),
});

const calls = [];

export function refundPayment(sent) {
  calls.push(Refund.parse(sent));
  return { refund: "re_77" };
}

export function check(condition, what) {
  if (!condition) throw new Error(what);
}

// One step of the scenario, which must run the tool at least `numCalls` times.
export async function step(name, numCalls, run) {
  const before = calls.length;
  let why = "";
  try {
    await run();
    const made = calls.length - before;
    if (made < numCalls) why = `${made} calls instead of ${numCalls}`;
  } catch (error) {
    why = `${error.name}: ${error.message}`;
  }
  console.log(JSON.stringify({ step: name, why, calls: calls.slice(before) }));
}
