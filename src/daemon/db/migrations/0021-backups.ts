import type { Migration } from '../migrations.ts'

/** Backups of servers, their settings, and the policies that make them. */
export const backups: Migration = {
  id: 21,
  name: 'backups',
  sql: `
create table backup_policy (
  id text primary key,
  name text not null unique,
  enabled integer not null default 1,
  target text not null check (target in ('all', 'location', 'node', 'servers')),
  target_id text,
  server_ids text not null default '[]',
  cron text not null,
  time_zone text not null,
  kind text not null check (kind in ('archive', 'incremental')),
  compression text not null check (compression in ('gzip', 'zstd', 'none')),
  store_id text references backup_store (id),
  label text,
  ignored text not null default '[]',
  databases integer not null default 0,
  keep_count integer not null default 0,
  keep_days integer not null default 0,
  per_node integer not null default 2,
  allocation_mb integer,
  last_run_at text,
  next_run_at text,
  created_at text not null,
  updated_at text not null
) strict;
create index backup_policy_next on backup_policy (next_run_at) where enabled = 1;

create table backup (
  id text primary key,
  server_id text references server (id) on delete set null,
  owner_id text not null,
  server_name text not null,
  node_id text references node (id) on delete set null,
  store_id text not null references backup_store (id),
  policy_id text references backup_policy (id) on delete set null,
  name text not null,
  kind text not null check (kind in ('archive', 'incremental')),
  compression text not null check (compression in ('gzip', 'zstd', 'none')),
  label text,
  locked integer not null default 0,
  counts integer not null default 1,
  status text not null check (status in ('pending', 'in_progress', 'completed', 'failed', 'restoring', 'deleting')),
  error text,
  ignored text not null default '[]',
  databases text not null default '[]',
  problems text not null default '[]',
  problem_count integer not null default 0,
  entries integer,
  bytes integer,
  stored_bytes integer,
  sha256 text,
  job_id text,
  created_by text references user (id) on delete set null,
  started_at text,
  completed_at text,
  restored_at text,
  verified_at text,
  damage text,
  created_at text not null,
  updated_at text not null
) strict;
create index backup_server on backup (server_id, created_at);
create index backup_owner on backup (owner_id, store_id);
create index backup_created on backup (created_at);
create index backup_open on backup (status) where status in ('pending', 'in_progress', 'restoring', 'deleting');

create table backup_settings (
  server_id text primary key references server (id) on delete cascade,
  kind text not null default 'archive' check (kind in ('archive', 'incremental')),
  compression text not null default 'gzip' check (compression in ('gzip', 'zstd', 'none')),
  retention_count integer not null default 0,
  retention_days integer not null default 0,
  labels text not null default '[]',
  ignored text not null default '[]',
  quiesce text not null default '[]',
  resume text not null default '[]',
  databases integer not null default 0,
  allocation_mb integer,
  updated_at text not null
) strict;

create table backup_policy_server (
  policy_id text not null references backup_policy (id) on delete cascade,
  server_id text not null references server (id) on delete cascade,
  due_at text,
  last_backup_id text,
  last_success_at text,
  last_failure_at text,
  last_error text,
  primary key (policy_id, server_id)
) strict;
create index backup_policy_server_due on backup_policy_server (due_at) where due_at is not null;
create index backup_policy_server_server on backup_policy_server (server_id);

create table backup_policy_run (
  id text primary key,
  policy_id text not null references backup_policy (id) on delete cascade,
  cause text not null check (cause in ('schedule', 'manual')),
  due_at text not null,
  started_by text references user (id) on delete set null,
  status text not null check (status in ('running', 'completed', 'failed', 'cancelled', 'superseded')),
  created_at text not null,
  ended_at text
) strict;
create index backup_policy_run_policy on backup_policy_run (policy_id, created_at);
create unique index backup_policy_run_open on backup_policy_run (policy_id) where status = 'running';
create index backup_policy_run_started_by on backup_policy_run (started_by);

create table backup_policy_result (
  run_id text not null references backup_policy_run (id) on delete cascade,
  server_id text not null,
  server_name text not null,
  state text not null check (state in ('waiting', 'running', 'completed', 'failed', 'skipped')),
  backup_id text,
  reason text,
  started_at text,
  ended_at text,
  primary key (run_id, server_id)
) strict;
create index backup_policy_result_state on backup_policy_result (run_id, state);
`,
}
