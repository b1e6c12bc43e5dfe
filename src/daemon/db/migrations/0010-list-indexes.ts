import type { Migration } from '../migrations.ts'

/**
 * What pages of long lists are read from: for each filter and order an index that also holds what further filters look at,
 * so that no row is looked up only to be counted or passed over. The expression is the status of servers/rows.ts; the
 * columns that it looks at stand behind it, or SQLite would read the row for an expression that the index has.
 */
export const listIndexes: Migration = {
  id: 10,
  name: 'list indexes',
  sql: `
drop index server_created;
create index server_created on server (created_at, id, owner_id, node_id, template_id, location_id);
drop index server_node;
create index server_node on server (node_id, created_at, id, owner_id, template_id, location_id);
create index server_node_name on server (node_id, name collate nocase);
drop index server_owner;
create index server_owner on server (owner_id, created_at, id, node_id, template_id, location_id);
create index server_owner_name on server (owner_id, name collate nocase);
drop index server_template;
create index server_template on server (template_id, created_at, id, owner_id, node_id, location_id);
create index server_template_name on server (template_id, name collate nocase);
drop index server_location;
create index server_location on server (location_id, created_at, id, owner_id, node_id, template_id);
create index server_location_name on server (location_id, name collate nocase);
create index server_status on server (case
    when deleting_at is not null then 'deleting'
    when archived_at is not null then 'archived'
    when suspended_at is not null then 'suspended'
    when activity is not null then activity
    when power = 'unknown' then 'unknown'
    when power = 'offline' and crashed = 1 then 'crashed'
    when power = 'offline' and failed = 1 then 'error'
    when power = 'offline' then 'stopped'
    else power end,
  created_at, id, deleting_at, archived_at, suspended_at, activity, power, crashed, failed,
  owner_id, node_id, template_id, location_id);

drop index audit_log_user;
create index audit_log_user on audit_log (user_id, created_at, seq, resource, action, ip_address);
drop index audit_log_resource;
create index audit_log_resource on audit_log (resource, created_at, seq, action);
drop index audit_log_address;
create index audit_log_address on audit_log (ip_address, created_at, seq, resource, action) where ip_address is not null;

create index api_key_enabled on api_key (enabled);
create index auth_lockout_time on auth_lockout (last_failed_at);

drop index alert_time;
create index alert_time on alert (listed, created_at, id, resolved_at);
create index alert_type on alert (type, listed, created_at, id, resolved_at);
create index alert_severity on alert (severity, listed, created_at, id, resolved_at);
drop index alert_server;
create index alert_server on alert (server_id, listed, created_at, id, resolved_at) where server_id is not null;
drop index alert_node;
create index alert_node on alert (node_id, listed, created_at, id, resolved_at) where node_id is not null;
drop index alert_unresolved;
create index alert_unresolved on alert (listed, created_at, id, resolved_at) where resolved_at is null;

create index delivery_status on delivery (webhook_id, status, created_at) where webhook_id is not null;
create index delivery_event on delivery (webhook_id, event, created_at) where webhook_id is not null;

drop index system_error_level;
create index system_error_level on system_error (level, last_seen_at, id, resolved_at);
create index system_error_unresolved on system_error (last_seen_at, id, resolved_at, level) where resolved_at is null;
create index system_error_resolved on system_error (last_seen_at, id, resolved_at, level) where resolved_at is not null;
create index system_error_request on system_error (request_id) where request_id is not null;
`,
}
