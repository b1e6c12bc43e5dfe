import type { Migration } from '../migrations.ts'

/** Servers on their way in from another panel: the migrations, their steps, and what became of everything they brought. */
export const migration: Migration = {
  id: 23,
  name: 'migration',
  sql: `
create table migration_job (
  seq integer primary key autoincrement,
  id text not null unique,
  status text not null
    check (status in ('pending', 'validating', 'running', 'paused', 'completed', 'failed', 'cancelled')),
  active integer generated always as (case when status in ('pending', 'validating', 'running') then 1 end) virtual,
  requested text check (requested in ('pause', 'cancel')),
  rollback integer not null default 0,
  outcome text check (outcome in ('clean', 'with_failures')),
  source_kind text check (source_kind in ('pterodactyl', 'pelican', 'directory')),
  source_url text not null,
  source_version text,
  source_fp text,
  config text not null,
  keys text,
  keys_until text,
  plan text,
  plan_hash text,
  report text,
  current_phase text,
  error text,
  error_code text,
  created_by text references user (id) on delete set null,
  created_at text not null,
  started_at text,
  completed_at text,
  updated_at text not null
) strict;
create unique index migration_job_active on migration_job (active) where active is not null;
create index migration_job_status on migration_job (status, seq);
create index migration_job_keys on migration_job (keys_until) where keys_until is not null;
create index migration_job_created_by on migration_job (created_by) where created_by is not null;

create table migration_step (
  job_id text not null references migration_job (id) on delete cascade,
  id text not null,
  seq integer not null,
  phase text not null,
  action text not null,
  name text not null,
  source_type text,
  source_id text,
  target_id text,
  status text not null check (status in ('pending', 'running', 'completed', 'failed', 'skipped')),
  reason text,
  required integer not null default 0,
  retryable integer not null default 1,
  attempt integer not null default 0,
  not_before text,
  input text not null,
  intent text,
  checkpoint text,
  result text,
  error text,
  error_code text,
  started_at text,
  completed_at text,
  updated_at text not null,
  primary key (job_id, id)
) strict;
create unique index migration_step_seq on migration_step (job_id, seq);
create index migration_step_status on migration_step (job_id, status, seq);

create table migration_step_need (
  job_id text not null,
  step_id text not null,
  needs_id text not null,
  met_by text not null check (met_by in ('done', 'end')),
  primary key (job_id, step_id, needs_id),
  foreign key (job_id, step_id) references migration_step (job_id, id) on delete cascade,
  foreign key (job_id, needs_id) references migration_step (job_id, id) on delete cascade
) strict, without rowid;
create index migration_step_need_of on migration_step_need (job_id, needs_id);

create table migration_map (
  id text primary key,
  source_fp text not null,
  source_type text not null,
  source_id text not null,
  target_type text not null,
  target_id text not null,
  created integer not null,
  content_hash text not null,
  target_hash text,
  job_id text references migration_job (id) on delete set null,
  created_at text not null,
  updated_at text not null,
  unique (source_fp, source_type, source_id)
) strict;
create index migration_map_target on migration_map (target_type, target_id);
create index migration_map_job on migration_map (job_id) where job_id is not null;
`,
}
