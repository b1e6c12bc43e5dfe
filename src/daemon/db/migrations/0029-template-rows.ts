import type { Migration } from '../migrations.ts'

/**
 * Templates in an ordinary table: in one without row ids SQLite reads all of each row that it compares with an id, and their definitions
 * are up to some hundred kilobytes. Whatever joins servers with the names of their templates reads them.
 */
export const templateRows: Migration = {
  id: 29,
  name: 'template-rows',
  sql: `
create table template_new (
  id text not null primary key, name text not null unique collate nocase,
  nest_id text references nest (id) on delete set null,
  definition text not null, created_at text not null, updated_at text not null
) strict;
insert into template_new (id, name, nest_id, definition, created_at, updated_at)
  select id, name, nest_id, definition, created_at, updated_at from template;
drop table template;
alter table template_new rename to template;
create index template_nest on template (nest_id);
`,
}
