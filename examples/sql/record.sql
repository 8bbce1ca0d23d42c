-- Record a task for a worker in any language. The first call records it, every later one is a duplicate.
--   psql "$DATABASE_URL" -f examples/sql/record.sql

select onceward.record('job/greet', 'greet ann', '{"name": "Ann"}');

-- Workers that listen look at once instead of at their next poll.
select onceward.wake(array['job/greet']);
