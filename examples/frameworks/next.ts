// Next: app/webhooks/stripe/route.ts. No worker runs in a serverless function, so that the event is handled before it is
// answered. Jobs need a worker somewhere: `onceward serve`, or any process that calls once.start().
import { fetchHandler } from "onceward/fetch";
import { billing } from "./billing.ts";

export const runtime = "nodejs";
export const POST = fetchHandler(billing);
