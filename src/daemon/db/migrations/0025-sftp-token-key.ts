import type { Migration } from '../migrations.ts'

/** The API key that a token was made with; whoever deletes a key that is known to others ends what they have made of it. */
export const sftpTokenKey: Migration = {
  id: 25,
  name: 'sftp-token-key',
  sql: `
alter table sftp_token add column api_key_id text references api_key (id) on delete cascade;
create index sftp_token_api_key on sftp_token (api_key_id) where api_key_id is not null;
`,
}
