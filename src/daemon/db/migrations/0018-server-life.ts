import type { Migration } from '../migrations.ts'

/** What operators choose for a server beside its sizes, the names of its ports, and from which ports a node gives. */
export const serverLife: Migration = {
  id: 18,
  name: 'server-life',
  sql: `
alter table server add column boot_policy text not null default 'unless-stopped' check (boot_policy in ('always', 'unless-stopped', 'never'));
alter table server add column start_order integer not null default 0;
alter table server add column stop_timeout_seconds integer;
alter table server add column time_zone text;
alter table server add column cpu_set text;
alter table server add column io_weight integer;
alter table server add column image text;
alter table server add column startup_name text;
alter table server add column mounts text not null default '[]';
alter table server add column eula text;
alter table server add column pinned_template text;
alter table server add column pinned_at text;
alter table allocation add column name text;
alter table allocation add column role text check (role in ('game', 'query', 'rcon', 'files', 'other'));
alter table allocation add column protocol text check (protocol in ('tcp', 'udp', 'both'));
alter table node add column port_ranges text not null default '[]';
`,
}
