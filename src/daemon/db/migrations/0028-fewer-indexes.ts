import type { Migration } from '../migrations.ts'

/**
 * Each index of what an order writes is pages more in its commit. Nobody looks for the events of a server, and of its commands those that
 * have not ended are looked for, which are few; what was ordered since an older one is in the order of the ids.
 */
export const fewerIndexes: Migration = {
  id: 28,
  name: 'fewer-indexes',
  sql: `
drop index event_server;
drop index command_server;
create index command_server on command (server_id, node_id, generation, op, state) where ended_at is null;
`,
}
