import type { Migration } from '../migrations.ts'

/**
 * The audit log as a chain, and system errors. Rows from before the chain get their hashes when the daemon starts
 * (core/audit-chain.ts): SQL cannot compute them.
 */
export const records: Migration = {
  id: 3,
  name: 'records',
  sql: `
create table audit_log_chained (
  seq integer primary key autoincrement, id text not null unique, user_id text, api_key_id text,
  action text not null, resource text not null, resource_id text, details text,
  ip_address text, user_agent text, request_id text, created_at text not null, hash text
) strict;
insert into audit_log_chained (id, user_id, api_key_id, action, resource, resource_id, details, ip_address, user_agent,
    request_id, created_at)
  select id, user_id, api_key_id, action, resource, resource_id, details, ip_address, user_agent, request_id, created_at
  from audit_log order by created_at, id;
drop table audit_log;
alter table audit_log_chained rename to audit_log;
create index audit_log_time on audit_log (created_at, action);
create index audit_log_user on audit_log (user_id, created_at);
create index audit_log_resource on audit_log (resource, created_at);
create index audit_log_resource_id on audit_log (resource_id, created_at) where resource_id is not null;
create index audit_log_request on audit_log (request_id, created_at) where request_id is not null;
create index audit_log_address on audit_log (ip_address, created_at) where ip_address is not null;

create table audit_anchor (
  id integer primary key check (id = 1), seq integer not null, hash text not null, unchained_to integer
) strict;
insert into audit_anchor (id, seq, hash, unchained_to)
  values (1, 0, '${'0'.repeat(64)}', (select max(seq) from audit_log));

create table system_error (
  id text primary key, fingerprint text not null, level text not null, component text not null, message text not null,
  stack text, metadata text, request_id text, user_id text, count integer not null,
  first_seen_at text not null, last_seen_at text not null,
  resolved_at text, resolved_by text, resolution_note text
) strict, without rowid;
create unique index system_error_open on system_error (fingerprint) where resolved_at is null;
create index system_error_time on system_error (last_seen_at, id);
create index system_error_level on system_error (level, last_seen_at, id);
`,
}
