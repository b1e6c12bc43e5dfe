import type { Migration } from '../migrations.ts'

/** Plugins: who enabled them with which rights, their configuration, and what they store. */
export const plugins: Migration = {
  id: 9,
  name: 'plugins',
  sql: `
create table plugin (
  name text primary key, enabled integer not null, uid integer unique,
  granted text not null, key_id text references api_key (id) on delete set null,
  enabled_by text references user (id) on delete set null, enabled_at text,
  config text not null, secrets text not null, created_at text not null, updated_at text not null
) strict, without rowid;
create index plugin_key on plugin (key_id) where key_id is not null;
create index plugin_enabler on plugin (enabled_by) where enabled_by is not null;

create table plugin_storage (
  plugin_name text not null references plugin (name) on delete cascade,
  key text not null, value text not null, bytes integer not null, updated_at text not null,
  primary key (plugin_name, key)
) strict, without rowid;
`,
}
