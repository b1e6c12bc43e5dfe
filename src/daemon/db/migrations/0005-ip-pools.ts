import type { Migration } from '../migrations.ts'

/** IP pools; who suspended a server. Addresses are stored as 32 hexadecimal digits beside their text: those sort as numbers. */
export const ipPools: Migration = {
  id: 5,
  name: 'ip-pools',
  sql: `
create table ip_pool (
  id text primary key, node_id text not null references node (id) on delete cascade,
  network_name text not null, cidr text not null, gateway text, start_ip text, end_ip text, reserved text not null,
  family integer not null check (family in (4, 6)),
  network_first text not null, network_last text not null, range_first text not null, range_last text not null,
  created_at text not null, updated_at text not null,
  unique (node_id, network_name)
) strict, without rowid;

create table ip_pool_address (
  id text primary key, pool_id text not null references ip_pool (id),
  server_id text not null references server (id) on delete cascade deferrable initially deferred,
  ip text not null, position text not null, created_at text not null,
  unique (pool_id, position)
) strict, without rowid;
create index ip_pool_address_server on ip_pool_address (server_id);

alter table server add column suspended_by_user_id text;
`,
}
