import type { Migration } from '../migrations.ts'

/**
 * Which databases of servers are the panel's own. Those that migrations have recorded so far are not, as long as they are the ones of the
 * source: copies stand in the map as another kind.
 */
export const databaseManaged: Migration = {
  id: 24,
  name: 'database-managed',
  sql: `
alter table server_database add column managed integer not null default 1 check (managed in (0, 1));
update server_database set managed = 0 where id in (
  select target_id from migration_map where source_type = 'database' and target_type = 'database'
);
`,
}
