/** A process that runs a recipe and kills itself where it is told to. */
import { drip } from "../../../examples/recipes/drip.ts";
import { subscriptions } from "../../../examples/recipes/subscription.ts";
import { createOnce } from "../../../src/once.ts";
import { Provider } from "./provider.ts";

export interface Order {
  readonly url: string;
  readonly recipe: "drip" | "subscription";
  /** `move`: inside the transaction, or after its commit. `mail`: before the provider took it, or after. */
  readonly die:
    | "before the move is committed"
    | "after the move"
    | "before the mail is sent"
    | "after the mail was sent";
}

const { url, recipe, die } = JSON.parse(process.argv[2] ?? "") as Order;
process.once("disconnect", () => process.exit(1));
const once = createOnce({ database: url });
const plan = { "before the mail is sent": "die", "after the mail was sent": "take and die" } as const;
const provider = new Provider(once.database, () => (die in plan ? plan[die as keyof typeof plan] : "take"));
await provider.open();

if (recipe === "drip") await runDrip();
else await runSubscription();
if (die.includes("the mail")) await once.start();
else process.kill(process.pid, "SIGKILL");

async function runDrip(): Promise<void> {
  const letters = drip(once, ({ letter }, key) => provider.send(letter, key));
  await once.engine.ready();
  await once.database.transaction(async (tx) => {
    await letters.move("cus_1", "welcome", { tx });
    if (die === "before the move is committed") process.kill(process.pid, "SIGKILL");
  });
}

/** Its timers are due already: starting the worker makes the moves. */
async function runSubscription(): Promise<void> {
  const nobody = { on: () => nobody } as unknown as Parameters<typeof subscriptions>[1];
  subscriptions(once, nobody, ({ notice }, key) => provider.send(notice, key));
  await once.engine.ready();
}
