import type { Migration } from '../migrations.ts'

/** Backups of servers, their settings, and the policies that make them. */
export const backups: Migration = {
  id: 21,
  name: 'backups',
  sql: `
create table backup (
  id text primary key,
  server_id text references server (id) on delete set null,
  owner_id text not null,
  node_id text references node (id) on delete set null,
  store_id text not null references backup_store (id),
  name text not null,
  created_at text not null
);
create index backup_server on backup (server_id, created_at);
`,
}
