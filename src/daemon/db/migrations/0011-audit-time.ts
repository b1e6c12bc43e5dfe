import type { Migration } from '../migrations.ts'

/** The whole order of the audit log in its index: with `action` before `seq`, all rows before a page were sorted first. */
export const auditTime: Migration = {
  id: 11,
  name: 'audit time',
  sql: `
drop index audit_log_time;
create index audit_log_time on audit_log (created_at, seq, action);
`,
}
