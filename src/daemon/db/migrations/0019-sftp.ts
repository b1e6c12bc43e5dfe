import type { Migration } from '../migrations.ts'

/** Keys and tokens by which people reach files over SSH, and what they did there. */
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
  fingerprint text not null unique,
  is_read_only integer not null default 0,
  created_at text not null,
  last_used_at text
);
create index ssh_key_user on ssh_key (user_id);

alter table server_access add column file_paths text;
alter table server_invite add column file_paths text;
`,
}
