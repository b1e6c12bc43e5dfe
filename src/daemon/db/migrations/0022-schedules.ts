import type { Migration } from '../migrations.ts'

/** Schedules of servers and the history of their runs. A run is open at most once for each schedule. */
export const schedules: Migration = {
  id: 22,
  name: 'schedules',
  sql: `
create table schedule (
  id text primary key,
  server_id text not null references server (id) on delete cascade,
  owner_id text references user (id) on delete set null,
  api_key_id text,
  name text not null,
  description text,
  cron text not null,
  timezone text not null,
  steps text not null,
  enabled integer not null,
  disabled_by_suspension integer not null default 0,
  only_when_online integer not null,
  missed text not null check (missed in ('skip', 'once')),
  next_run_at text,
  timed_at text not null,
  last_run_at text,
  last_status text,
  last_error text,
  run_count integer not null default 0,
  created_at text not null,
  updated_at text not null
) strict;
create index schedule_server on schedule (server_id, created_at, id);
create index schedule_due on schedule (next_run_at) where next_run_at is not null;
create index schedule_timed on schedule (timed_at);

create table schedule_run (
  seq integer primary key,
  id text not null unique,
  schedule_id text not null references schedule (id) on delete cascade,
  job_id text,
  cause text not null check (cause in ('schedule', 'missed', 'manual')),
  user_id text,
  status text not null check (status in ('running', 'success', 'failed', 'skipped', 'aborted')),
  reason text,
  error text,
  steps text not null,
  output text not null default '{}',
  due_at text not null,
  started_at text,
  ended_at text
) strict;
create index schedule_run_history on schedule_run (schedule_id, seq);
create unique index schedule_run_open on schedule_run (schedule_id) where ended_at is null;
`,
}
