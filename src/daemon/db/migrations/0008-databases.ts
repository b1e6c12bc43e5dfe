import type { Migration } from '../migrations.ts'

/** Database hosts, the databases of servers on them, and how many a server may have. */
export const databases: Migration = {
  id: 8,
  name: 'databases',
  sql: `
alter table server add column database_allocation integer not null default 0;

create table database_host (
  id text primary key, name text not null unique, engine text not null, host text not null, port integer not null,
  username text not null, password text not null, tls text not null, ca_certificate text, max_databases integer,
  created_at text not null, updated_at text not null
) strict, without rowid;

create table server_database (
  id text primary key,
  host_id text not null references database_host (id),
  server_id text references server (id) on delete set null,
  name text not null, username text not null, remote text not null,
  password text not null, pending_password text,
  state text not null, requested_by text, attempts integer not null, next_attempt_at text not null, last_error text,
  created_at text not null, updated_at text not null,
  unique (host_id, name), unique (host_id, username)
) strict, without rowid;
create index server_database_server on server_database (server_id, created_at);
create index server_database_unfinished on server_database (next_attempt_at) where state <> 'ready';
`,
}
