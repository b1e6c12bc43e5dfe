import type { Migration } from '../migrations.ts'

/** Why a server's last process ended: for programs (an enumeration) and as a sentence. */
export const exitCause: Migration = {
  id: 14,
  name: 'exit cause',
  sql: `
alter table server add column last_exit_cause text;
alter table server add column last_exit_reason text;
`,
}
