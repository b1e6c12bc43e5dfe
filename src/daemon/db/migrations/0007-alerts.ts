import type { Migration } from '../migrations.ts'

/**
 * Alerts with their rules, webhooks, and the outbox of messages. A new installation and one from before alerts begin with
 * a rule that notices nodes that stay away.
 */
export const alerts: Migration = {
  id: 7,
  name: 'alerts',
  sql: `
create table alert_rule (
  id text primary key, name text not null, description text, enabled integer not null,
  type text not null, target text not null, target_id text,
  user_id text references user (id) on delete set null,
  conditions text not null, actions text not null, sealed_webhooks text,
  created_at text not null, updated_at text not null
) strict, without rowid;
create index alert_rule_user on alert_rule (user_id);
create index alert_rule_target on alert_rule (target_id) where target_id is not null;
create index alert_rule_name on alert_rule (name, id);

create table alert (
  id text primary key,
  rule_id text references alert_rule (id) on delete set null,
  user_id text references user (id) on delete set null,
  server_id text references server (id) on delete set null,
  node_id text references node (id) on delete set null,
  subject_id text not null, metric text not null, listed integer not null,
  type text not null, severity text not null, title text not null, message text not null, metadata text not null,
  created_at text not null, resolved_at text, resolved_by text
) strict, without rowid;
create unique index alert_open on alert (rule_id, subject_id, metric) where resolved_at is null and rule_id is not null;
create index alert_subject on alert (subject_id, resolved_at);
create index alert_time on alert (created_at, id);
create index alert_rule_time on alert (rule_id, subject_id, metric, created_at);
create index alert_user on alert (user_id, created_at);
create index alert_server on alert (server_id, created_at) where server_id is not null;
create index alert_node on alert (node_id, created_at) where node_id is not null;
create index alert_unresolved on alert (created_at, id) where resolved_at is null;

create table alert_crash_count (
  server_id text primary key references server (id) on delete cascade, crash_count integer not null
) strict, without rowid;
insert into alert_crash_count (server_id, crash_count) select id, crash_count from server where crash_count > 0;

create table webhook (
  id text primary key, name text not null, description text,
  shown_url text not null, sealed_url text not null, sealed_secret text not null,
  format text not null, events text not null, enabled integer not null, disabled_reason text,
  failing_since text, failures integer not null, last_success_at text, last_failure_at text, last_error text,
  created_by text references user (id) on delete set null, created_at text not null, updated_at text not null
) strict, without rowid;
create index webhook_name on webhook (name, id);
create index webhook_maker on webhook (created_by);

create table delivery (
  id text primary key, channel text not null,
  webhook_id text references webhook (id) on delete cascade,
  alert_id text references alert (id) on delete cascade,
  lane text not null, target text not null, sealed_target text,
  event text not null, payload text not null,
  status text not null, attempts integer not null, attempts_left integer not null,
  next_attempt_at text, last_attempt_at text, last_status integer, last_error text,
  created_at text not null, updated_at text not null
) strict, without rowid;
create index delivery_due on delivery (lane, next_attempt_at) where next_attempt_at is not null;
create index delivery_webhook on delivery (webhook_id, created_at) where webhook_id is not null;
create index delivery_alert on delivery (alert_id) where alert_id is not null;
create index delivery_old on delivery (updated_at) where next_attempt_at is null;

create table delivery_attempt (
  id integer primary key autoincrement,
  delivery_id text not null references delivery (id) on delete cascade,
  number integer not null, started_at text not null, duration_ms integer not null,
  status integer, error text, response text
) strict;
create index delivery_attempt_of on delivery_attempt (delivery_id, number);

insert into alert_rule (id, name, description, enabled, type, target, target_id, user_id, conditions, actions,
    sealed_webhooks, created_at, updated_at)
  values ('rule_00000000000000000000000001', 'Node away', 'Comes with the panel', 1, 'node_offline', 'global', null, null,
    '{"offlineThreshold":5}', '{"cooldownMinutes":5}', null,
    strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
`,
}
