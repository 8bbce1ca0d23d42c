-- Run a task by hand: claim it, keep the result of a step, complete it. Every write after the claim
-- carries the attempt: where somebody else has taken over, it changes nothing and answers "lost".
--   psql "$DATABASE_URL" -f examples/sql/work.sql

select coalesce(claim ->> 'attempt', '0') as attempt, claim ->> 'outcome' as outcome
from onceward.claim('job/report', 'report 2026-10', '60 seconds', 'psql') as claim \gset
\echo :outcome
select :attempt > 0 as claimed \gset

\if :claimed
  -- A step that an earlier attempt has finished is not run again.
  select count(*) > 0 as counted
  from jsonb_array_elements(onceward.steps('job/report', 'report 2026-10')) as step
  where step ->> 'name' = 'count' and step ->> 'state' = 'done' \gset
  \if :counted
  \else
    select count(*) as orders from orders \gset
    select onceward.step_save('job/report', 'report 2026-10', :'attempt', 'count', 'done', :'orders');
  \endif

  -- It takes longer than its lease: say that it goes on.
  select onceward.renew('job/report', 'report 2026-10', :'attempt', '60 seconds');

  select onceward.complete('job/report', 'report 2026-10', :'attempt',
    (select jsonb_build_object('orders', (step ->> 'value')::integer)::text
     from jsonb_array_elements(onceward.steps('job/report', 'report 2026-10')) as step
     where step ->> 'name' = 'count'));
\endif
