/** The tables of the explored applications, and of the naive ways. */
export const appSchema = `
  create schema app;
  create table app.effect (name text not null, scope text, key text, attempt integer);
  create table app.seen (id text primary key, state text not null, started_at bigint);
`;
