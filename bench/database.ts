import pg from "pg";

/** Runs `work` on a connection of its own. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** The table that handlers write their one row into. */
export const orderTable = `create table if not exists bench_order (
  id text primary key, type text not null, amount integer not null, placed_at timestamptz not null default now())`;

export const insertOrder = "insert into bench_order (id, type, amount) values ($1, $2, 4200)";
/** The same rows for several, by one statement. */
export const insertOrders =
  "insert into bench_order (id, type, amount) select id, type, 4200 from unnest($1::text[], $2::text[]) as u(id, type)";
