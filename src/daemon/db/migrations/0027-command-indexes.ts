import type { Migration } from '../migrations.ts'

/**
 * What is open of a node comes in its order from an index alone, and the newest order of a server is the end of another. An index of
 * rows of certain states helps only a query that names all of them literally, which none did; that a row has not ended each can say.
 */
export const commandIndexes: Migration = {
  id: 27,
  name: 'command-indexes',
  sql: `
drop index command_open;
drop index command_server;
create index command_open on command (node_id, state, generation, id, server_id, op) where ended_at is null;
create index command_server on command (server_id, generation, op);
`,
}
