import type { Migration } from '../migrations.ts'

const stamps = 'created_at text not null, updated_at text not null'

/** Accounts, places, servers, orders, events, audit, settings. */
export const firstSchema: Migration = {
  id: 1,
  name: 'first schema',
  sql: `
create table user (
  id text primary key, email text not null unique, username text not null unique collate nocase,
  first_name text, last_name text, password_hash text,
  email_verified integer not null default 0, banned integer not null default 0, ban_reason text, ban_expires text,
  last_successful_login text, ${stamps}
) strict, without rowid;

create table role (
  id text primary key, name text not null unique collate nocase, description text, permissions text not null,
  protected integer not null default 0, ${stamps}
) strict, without rowid;

create table user_role (
  user_id text not null references user (id) on delete cascade,
  role_id text not null references role (id) on delete cascade,
  primary key (user_id, role_id)
) strict, without rowid;
create index user_role_role on user_role (role_id);

create table session (
  id text primary key, user_id text not null references user (id) on delete cascade, secret_hash text not null,
  ip_address text, user_agent text, persistent integer not null, expires_at text not null, ${stamps}
) strict, without rowid;
create index session_user on session (user_id);
create index session_expiry on session (expires_at);

create table api_key (
  id text primary key, user_id text not null references user (id) on delete cascade, name text not null,
  start text not null, secret_hash text not null, enabled integer not null default 1, expires_at text,
  last_request text, request_count integer not null default 0,
  rate_limit_enabled integer not null, rate_limit_max integer not null, rate_limit_time_window integer not null,
  all_permissions integer not null, permissions text not null, metadata text, ${stamps}
) strict, without rowid;
create index api_key_user on api_key (user_id);

create table auth_lockout (
  id text primary key, email text not null, ip_address text not null, user_agent text,
  failure_count integer not null, lock_count integer not null default 0,
  first_failed_at text not null, last_failed_at text not null, locked_until text, ${stamps},
  unique (email, ip_address)
) strict, without rowid;

create table location (
  id text primary key, name text not null unique collate nocase, description text, ${stamps}
) strict, without rowid;

create table node (
  id text primary key, name text not null unique collate nocase, description text,
  location_id text not null references location (id),
  hostname text not null, public_address text not null, default_ip text not null,
  max_memory_mb integer not null, max_cpu_cores real not null,
  memory_overallocate_percent integer not null default 0, cpu_overallocate_percent integer not null default 0,
  maintenance integer not null default 0, is_online integer not null default 0, last_seen_at text,
  agent_version text, os text, arch text, runtimes text not null default '[]', addresses text not null default '[]',
  journal_id text, event_ack integer not null default 0, ${stamps}
) strict, without rowid;
create index node_location on node (location_id);

create table node_key (
  id text primary key, node_id text not null references node (id) on delete cascade, secret_hash text not null,
  preview text not null, created_at text not null, last_used_at text
) strict, without rowid;
create index node_key_node on node_key (node_id);

create table deployment_token (
  id text primary key, node_id text not null references node (id) on delete cascade, token_hash text not null unique,
  expires_at text not null, used_at text, created_at text not null
) strict, without rowid;
create index deployment_token_node on deployment_token (node_id);

create table nest (
  id text primary key, name text not null unique collate nocase, description text, icon text, author text, ${stamps}
) strict, without rowid;

create table template (
  id text primary key, name text not null unique collate nocase, nest_id text references nest (id) on delete set null,
  definition text not null, ${stamps}
) strict, without rowid;
create index template_nest on template (nest_id);

create table server (
  id text primary key, uuid text not null unique, name text not null, description text,
  template_id text not null references template (id), node_id text not null references node (id),
  location_id text not null references location (id), owner_id text not null references user (id),
  allocation_id text not null, runtime text not null,
  memory_mb integer not null, cpu_cores real not null, disk_mb integer not null, swap_mb integer not null default 0,
  environment text not null, startup_command text,
  restart_policy text not null, max_crash_count integer not null,
  suspended_at text, suspension_reason text, archived_at text, deleting_at text,
  desired text not null default 'stopped', generation integer not null default 0,
  power text not null default 'offline', last_known_power text, activity text,
  installed integer not null default 0, failed integer not null default 0, crashed integer not null default 0,
  crash_count integer not null default 0, reason text,
  observed_generation integer not null default 0, observed_at text, started_at text, pid integer,
  last_exit_code integer, last_exit_signal text, last_crash_at text, next_restart_at text, ${stamps}
) strict, without rowid;
create index server_name on server (name collate nocase);
create index server_created on server (created_at);
create index server_node on server (node_id);
create index server_owner on server (owner_id);
create index server_template on server (template_id);
create index server_location on server (location_id);

create table allocation (
  id text primary key, node_id text not null references node (id) on delete cascade,
  server_id text references server (id) on delete set null deferrable initially deferred,
  ip text not null, port integer not null, alias text, notes text, ${stamps},
  unique (node_id, ip, port)
) strict, without rowid;
create index allocation_server on allocation (server_id);

create table command (
  id text primary key, node_id text not null references node (id) on delete cascade, server_id text not null,
  generation integer not null, op text not null, args text not null, state text not null, error text,
  noop integer not null default 0, created_at text not null, accepted_at text, ended_at text
) strict, without rowid;
create index command_open on command (node_id, id) where state in ('queued', 'accepted');
create index command_server on command (server_id, id);

create table event (
  id integer primary key autoincrement, type text not null, server_id text, data text not null, created_at text not null
) strict;
create index event_server on event (server_id, id);

create table audit_log (
  id text primary key, user_id text, api_key_id text, action text not null, resource text not null, resource_id text,
  details text, ip_address text, user_agent text, request_id text, created_at text not null
) strict, without rowid;
create index audit_log_time on audit_log (created_at);
create index audit_log_resource on audit_log (resource, resource_id);
create index audit_log_user on audit_log (user_id);

create table setting (key text primary key, value text not null, updated_at text not null) strict, without rowid;

create table idempotency (
  id text primary key, request_hash text not null, response text, status integer, created_at text not null
) strict, without rowid;
create index idempotency_time on idempotency (created_at);
`,
}
