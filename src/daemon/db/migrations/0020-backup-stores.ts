import type { Migration } from '../migrations.ts'

/** Where backups may lie, which store is the default of what, and the backups of the panel itself. */
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
);
alter table location add column backup_store_id text references backup_store (id) on delete set null;
alter table node add column backup_store_id text references backup_store (id) on delete set null;
alter table server add column backup_store_id text references backup_store (id) on delete set null;
`,
}
