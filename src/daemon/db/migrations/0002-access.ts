import type { Migration } from '../migrations.ts'

/** Grants on servers and nodes, invitations. */
export const access: Migration = {
  id: 2,
  name: 'access',
  sql: `
create table server_access (
  id text primary key,
  server_id text not null references server (id) on delete cascade,
  user_id text not null references user (id) on delete cascade,
  permissions text not null, expires_at text, created_at text not null, updated_at text not null,
  unique (server_id, user_id)
) strict, without rowid;
create index server_access_user on server_access (user_id);
create index server_access_expiry on server_access (expires_at) where expires_at is not null;

create table server_invite (
  id text primary key,
  server_id text not null references server (id) on delete cascade,
  email text not null, permissions text not null, token_hash text not null unique,
  invited_by_user_id text not null references user (id) on delete cascade,
  created_at text not null, expires_at text not null, accepted_at text, cancelled_at text
) strict, without rowid;
create index server_invite_server on server_invite (server_id, email);
create index server_invite_maker on server_invite (invited_by_user_id);

create table node_assignment (
  id text primary key,
  node_id text references node (id) on delete cascade,
  user_id text references user (id) on delete cascade,
  role_id text references role (id) on delete cascade,
  assigned_by text references user (id) on delete set null,
  assigned_at text not null, expires_at text,
  check ((user_id is null) <> (role_id is null))
) strict, without rowid;
create unique index node_assignment_user on node_assignment (user_id, coalesce(node_id, '')) where user_id is not null;
create unique index node_assignment_role on node_assignment (role_id, coalesce(node_id, '')) where role_id is not null;
create index node_assignment_node on node_assignment (node_id);
create index node_assignment_maker on node_assignment (assigned_by);
create index node_assignment_expiry on node_assignment (expires_at) where expires_at is not null;

create table user_invite (
  id text primary key,
  user_id text not null unique references user (id) on delete cascade,
  token_hash text not null unique, created_at text not null, expires_at text not null
) strict, without rowid;
`,
}
