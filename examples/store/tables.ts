import type { Database, Transaction } from "onceward";

/** The shop's own tables, in the same database as the ledger: that is what makes one commit of both. */
export async function createTables(database: Database<Transaction>): Promise<void> {
  await database.query(`
    do $$ begin
      perform pg_advisory_xact_lock(4400); -- two servers that start at once
      create schema if not exists store;
      create table if not exists store.orders (
        session_id text primary key, customer text, email text,
        amount_total bigint, currency text, fulfilled_at timestamptz not null default now()
      );
      create table if not exists store.access (
        customer text primary key, subscription_id text not null,
        plan text, status text not null, current_period_end timestamptz
      );
      create table if not exists store.credits (
        invoice_id text primary key, customer text, amount bigint not null
      );
      create table if not exists store.customers (
        customer text primary key, email text
      );
    end $$`);
}

export async function emailOf(tx: Transaction, customer: string): Promise<string | undefined> {
  const { rows } = await tx.query<{ email: string }>(
    "select email from store.customers where customer = $1 and email is not null",
    [customer],
  );
  return rows[0]?.email;
}

/** Stripe gives an id, or the whole object where it was expanded. */
export function idOf(of: string | { id: string } | null | undefined): string | null {
  return typeof of === "string" ? of : (of?.id ?? null);
}
