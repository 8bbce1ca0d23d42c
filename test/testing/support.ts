/** Small applications whose handlers are right, or wrong in one way each. */
import type { PgClient } from "../../src/database/pg.ts";
import type { Handling } from "../../src/handler/handler.ts";
import type { ConnectedSource } from "../../src/handler/source.ts";
import { createOnce, type Once } from "../../src/once.ts";
import { stripe, type StripeEvents } from "../../src/source/stripe.ts";
import { event, SECRET } from "../handler/support.ts";

export type Paid = Handling<StripeEvents["invoice.paid"], PgClient>;

export interface App {
  readonly once: Once;
  readonly source: ConnectedSource<StripeEvents, PgClient>;
}

/** An application whose one handler is given; `once` and the rest are there before it is registered. */
export async function openApp(
  url: string,
  handler: (handling: Paid, app: App) => unknown,
  register?: (app: App) => void,
): Promise<App> {
  const once = createOnce({ database: url });
  const source = once.source(stripe({ secrets: SECRET }));
  const app = { once, source };
  source.on("invoice.paid", (handling) => handler(handling, app));
  register?.(app);
  await once.database.query(
    `create table if not exists credit (id bigint generated always as identity primary key,
       token uuid not null default gen_random_uuid(), at timestamptz not null default now(),
       invoice text not null, amount integer not null)`,
  );
  await once.database.query(
    "create table if not exists entry (credit bigint references credit (id), amount integer not null)",
  );
  return app;
}

export const paid = event("invoice.paid", { data: { object: { id: "in_1", amount_paid: 5 } } });
export const twin = event("invoice.paid", { data: { object: { id: "in_1", amount_paid: 5 } } });

/** What a right handler does. */
export async function credit({ event: { data }, tx }: Pick<Paid, "event" | "tx">): Promise<void> {
  const { rows } = await tx.query<{ id: string }>(
    "insert into credit (invoice, amount) values ($1, $2) returning id",
    [data.object.id, data.object.amount_paid],
  );
  await tx.query("insert into entry (credit, amount) values ($1, $2)", [
    rows[0]?.id,
    data.object.amount_paid,
  ]);
}
