import type { Migration } from '../migrations.ts'

/** What the claims of a new server look at: who has a port of a node, and how much of it is given away. */
export const claimIndexes: Migration = {
  id: 26,
  name: 'claim-indexes',
  sql: `
create index allocation_port on allocation (node_id, port) where server_id is not null;
create index server_given on server (node_id, memory_mb, cpu_cores);
`,
}
