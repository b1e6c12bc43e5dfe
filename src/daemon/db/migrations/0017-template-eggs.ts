import type { Migration } from '../migrations.ts'

/** The egg that a template was imported from, whole, for its export. */
export const templateEggs: Migration = {
  id: 17,
  name: 'template-eggs',
  sql: `
create table template_egg (
  template_id text not null primary key references template (id) on delete cascade,
  format text not null, uuid text, update_url text, document text not null
) strict;
`,
}
