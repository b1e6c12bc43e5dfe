import type { Migration } from '../migrations.ts'

/** Identity providers, accounts at them, sign-ins through a browser, and passkeys. */
export const identities: Migration = {
  id: 6,
  name: 'identities',
  sql: `
create table identity_provider (
  id text primary key, name text not null, client_id text, client_secret text, discovery_url text, enabled integer not null,
  scopes text not null, allowed_domains text not null, create_accounts integer not null, link_by_email integer not null,
  group_claim text, vouched text not null, created_at text not null, updated_at text not null
) strict, without rowid;
create index identity_provider_name on identity_provider (name);

create table provider_role (
  provider_id text not null references identity_provider (id) on delete cascade, group_name text not null,
  role_id text not null references role (id) on delete cascade, primary key (provider_id, group_name, role_id)
) strict, without rowid;
create index provider_role_role on provider_role (role_id);

create table identity (
  id text primary key, user_id text not null references user (id) on delete cascade, provider_id text not null,
  issuer text not null, subject text not null, email text, scopes text not null, last_used_at text,
  created_at text not null, updated_at text not null
) strict, without rowid;
create unique index identity_subject on identity (provider_id, issuer, subject);
create index identity_user on identity (user_id);

create table identity_role (
  identity_id text not null references identity (id) on delete cascade,
  role_id text not null references role (id) on delete cascade, primary key (identity_id, role_id)
) strict, without rowid;
create index identity_role_role on identity_role (role_id);

create table sign_in_flow (
  id text primary key, provider_id text not null, user_id text references user (id) on delete cascade,
  ticket_hash text unique, state_hash text unique, binding_hash text, return_to text, loopback_port integer,
  loopback_state text, code_challenge text, expires_at text not null, created_at text not null
) strict, without rowid;
create index sign_in_flow_expiry on sign_in_flow (expires_at);
create index sign_in_flow_user on sign_in_flow (user_id);

create table sign_in_code (
  code_hash text primary key, user_id text not null references user (id) on delete cascade, linking text,
  code_challenge text not null, expires_at text not null, created_at text not null
) strict, without rowid;
create index sign_in_code_expiry on sign_in_code (expires_at);
create index sign_in_code_user on sign_in_code (user_id);

create table passkey (
  id text primary key, user_id text not null references user (id) on delete cascade, credential_id text not null unique,
  public_key blob not null, counter integer not null, name text, device_type text not null, backed_up integer not null,
  transports text not null, aaguid text, last_used_at text, created_at text not null, updated_at text not null
) strict;
create index passkey_user on passkey (user_id);

create table passkey_challenge (
  challenge_hash text primary key, user_id text references user (id) on delete cascade, expires_at text not null,
  created_at text not null
) strict, without rowid;
create index passkey_challenge_expiry on passkey_challenge (expires_at);
create index passkey_challenge_user on passkey_challenge (user_id);
`,
}
