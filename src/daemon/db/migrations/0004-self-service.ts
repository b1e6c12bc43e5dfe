import type { Migration } from '../migrations.ts'

/** Preferences, pictures, second factors, pending sign-ins and mailed tokens of accounts. */
export const selfService: Migration = {
  id: 4,
  name: 'self service',
  sql: `
create table user_preferences (
  user_id text primary key references user (id) on delete cascade, preferences text not null, updated_at text not null
) strict, without rowid;

create table user_avatar (
  user_id text primary key references user (id) on delete cascade, content_type text not null, tag text not null,
  content blob not null, updated_at text not null
) strict;

create table two_factor (
  user_id text primary key references user (id) on delete cascade, secret text not null, confirmed_at text,
  last_step integer not null default 0, created_at text not null
) strict, without rowid;

create table recovery_code (
  user_id text not null references user (id) on delete cascade, code_hash text not null, primary key (user_id, code_hash)
) strict, without rowid;

create table login_challenge (
  id text primary key, user_id text not null references user (id) on delete cascade, token_hash text not null unique,
  persistent integer not null, expires_at text not null, created_at text not null
) strict, without rowid;
create index login_challenge_user on login_challenge (user_id);
create index login_challenge_expiry on login_challenge (expires_at);

create table mailed_token (
  id text primary key, user_id text not null references user (id) on delete cascade, purpose text not null,
  email text not null, token_hash text not null unique, expires_at text not null, created_at text not null
) strict, without rowid;
create index mailed_token_user on mailed_token (user_id, purpose);
create index mailed_token_expiry on mailed_token (expires_at);
`,
}
