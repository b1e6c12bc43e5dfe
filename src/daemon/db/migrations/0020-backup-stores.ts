import type { Migration } from '../migrations.ts'

/**
 * Where backups may lie, which store is the default of what, and the backups of the panel itself. A store that something refers to
 * cannot be removed: what it is the default of would go to another one without a word.
 */
export const backupStores: Migration = {
  id: 20,
  name: 'backup-stores',
  sql: `
create table backup_store (
  id text primary key,
  name text not null unique,
  kind text not null check (kind in ('local', 's3')),
  settings text not null default '{}',
  secret text,
  created_at text not null,
  updated_at text not null
) strict;
insert into backup_store (id, name, kind, settings, created_at, updated_at)
  values ('bst_local', 'local', 'local', '{"folder":null}',
    strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));

alter table location add column backup_store_id text references backup_store (id);
alter table node add column backup_store_id text references backup_store (id);
alter table server add column backup_store_id text references backup_store (id);
create index location_backup_store on location (backup_store_id) where backup_store_id is not null;
create index node_backup_store on node (backup_store_id) where backup_store_id is not null;
create index server_backup_store on server (backup_store_id) where backup_store_id is not null;

create table self_backup (
  id text primary key,
  name text not null unique,
  store_id text not null references backup_store (id),
  status text not null check (status in ('pending', 'completed', 'failed')),
  cause text not null check (cause in ('manual', 'schedule')),
  includes_key integer not null default 0,
  bytes integer,
  sha256 text,
  panel_version text,
  schema_version integer,
  error text,
  job_id text,
  created_at text not null,
  completed_at text
) strict;
create index self_backup_store on self_backup (store_id);
create index self_backup_created on self_backup (created_at);
`,
}
