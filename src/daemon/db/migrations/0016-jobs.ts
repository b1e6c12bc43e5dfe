import type { Migration } from '../migrations.ts'

/**
 * Jobs and their steps. What waited in the queues that deliveries, databases of servers and upkeep had before becomes jobs, so
 * that nothing of it is lost: the messages that were to be sent, and the databases that a host has not finished.
 */
export const jobs: Migration = {
  id: 16,
  name: 'jobs',
  sql: `
create table job (
  seq integer primary key autoincrement,
  id text not null unique, kind text not null, title text not null,
  input text not null, state text not null,
  status text not null, requested text,
  pool text not null, lane text not null, ordered integer not null,
  due_at text, not_before text not null, fence integer not null,
  job_key text, background integer not null,
  parent_id text references job (id) on delete cascade,
  server_id text references server (id) on delete set null,
  node_id text references node (id) on delete set null,
  principal text not null, user_id text references user (id) on delete set null, api_key_id text, cause text not null,
  steps_done integer not null, steps_total integer not null, current_step text,
  progress text, error text, error_code text,
  created_at text not null, started_at text, ended_at text, updated_at text not null
) strict;
create index job_due on job (due_at) where due_at is not null;
create index job_lane on job (pool, lane, due_at, seq) where due_at is not null;
create index job_turn on job (pool, lane, seq) where ordered = 1 and ended_at is null;
create unique index job_key on job (job_key) where job_key is not null and ended_at is null;
create index job_parent on job (parent_id) where parent_id is not null;
create index job_server on job (server_id, seq) where server_id is not null;
create index job_node on job (node_id) where node_id is not null;
create index job_user on job (user_id, seq) where user_id is not null;
create index job_shown on job (background, seq);
create index job_ended on job (ended_at) where ended_at is not null;

create table job_step (
  id text primary key, job_id text not null references job (id) on delete cascade, number integer not null,
  step text not null, name text not null, status text not null,
  attempts integer not null, error text, error_code text, started_at text, ended_at text,
  unique (job_id, number)
) strict, without rowid;

insert into job (id, kind, title, input, state, status, pool, lane, ordered, due_at, not_before, fence, job_key, background,
    principal, cause, steps_done, steps_total, current_step, created_at, updated_at)
  select 'job_0' || substr(lower(hex(randomblob(13))), 2), 'webhooks.deliver', 'Deliver ' || event,
    json_object('deliveryId', id, 'event', event, 'lane', lane), '{}', 'queued', 'deliveries', lane, 0,
    next_attempt_at, next_attempt_at, 0, 'webhooks.deliver ' || id, 1, 'panel', 'delivery', 0, 1, 'send', created_at, updated_at
  from delivery where next_attempt_at is not null order by next_attempt_at, id;

insert into job (id, kind, title, input, state, status, pool, lane, ordered, due_at, not_before, fence, job_key, background,
    principal, cause, steps_done, steps_total, current_step, created_at, updated_at)
  select 'job_0' || substr(lower(hex(randomblob(13))), 2), 'databases.finish', 'Finish the database ' || name,
    json_object('databaseId', id), '{}', 'queued', 'databases', id, 0,
    next_attempt_at, next_attempt_at, 0, 'databases.finish ' || id, 1, 'panel', 'database', 0, 1, 'finish',
    created_at, updated_at
  from server_database where state <> 'ready' order by next_attempt_at, id;

insert into job_step (id, job_id, number, step, name, status, attempts)
  select 'step_0' || substr(lower(hex(randomblob(13))), 2), id, 1, current_step, current_step, 'pending', 0 from job;

drop index delivery_due;
drop index delivery_old;
alter table delivery drop column lane;
create index delivery_waiting on delivery (webhook_id) where next_attempt_at is not null;
create index delivery_old on delivery (updated_at) where next_attempt_at is null;

drop index server_database_unfinished;
alter table server_database drop column attempts;
alter table server_database drop column next_attempt_at;
`,
}
