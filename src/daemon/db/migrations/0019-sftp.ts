import type { Migration } from '../migrations.ts'

/** Keys and tokens by which people reach files over SSH, the sessions that they have open, and where nodes take them. */
export const sftp: Migration = {
  id: 19,
  name: 'sftp',
  sql: `
create table ssh_key (
  id text primary key,
  user_id text not null references user (id) on delete cascade,
  name text not null,
  type text not null,
  public_key text not null,
  fingerprint text not null,
  is_read_only integer not null default 0 check (is_read_only in (0, 1)),
  created_at text not null,
  last_used_at text,
  unique (user_id, fingerprint)
) strict;

create table sftp_token (
  id text primary key,
  user_id text not null references user (id) on delete cascade,
  server_id text not null references server (id) on delete cascade,
  token_hash text not null unique,
  ttl_ms integer not null,
  expires_at text not null,
  created_at text not null,
  last_used_at text
) strict;
create index sftp_token_server on sftp_token (server_id, user_id);
create index sftp_token_user on sftp_token (user_id);

create table sftp_session (
  id text primary key,
  user_id text not null references user (id) on delete cascade,
  server_id text not null references server (id) on delete cascade,
  node_id text not null references node (id) on delete cascade,
  method text not null check (method in ('password', 'token', 'key')),
  credential text not null,
  is_read_only integer not null default 0 check (is_read_only in (0, 1)),
  ip_address text not null,
  client text,
  created_at text not null,
  ended_because text
) strict;
create index sftp_session_node on sftp_session (node_id);
create index sftp_session_server on sftp_session (server_id);
create index sftp_session_user on sftp_session (user_id);

alter table node add column sftp text;

alter table server_access add column file_paths text;
alter table server_invite add column file_paths text;
`,
}
