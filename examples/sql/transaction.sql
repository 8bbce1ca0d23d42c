-- Your rows and the task commit together, or neither does.
--   psql "$DATABASE_URL" -f examples/sql/transaction.sql

create table if not exists orders (id text primary key);

begin;
insert into orders (id) values ('order_1') on conflict do nothing;
-- Whatever brings this order, it is credited once.
select onceward.once('credit order_1');
select onceward.record('job/greet', 'greet bob', '{"name": "Bob"}');
commit;
