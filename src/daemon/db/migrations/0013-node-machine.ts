import type { Migration } from '../migrations.ts'

/** The machine that a node's agent runs on, so that a copy of its key on another one is noticed. */
export const nodeMachine: Migration = {
  id: 13,
  name: 'node machine',
  sql: `
alter table node add column machine_id text;
alter table node add column machine_boot_id text;
`,
}
