import type { Migration } from '../migrations.ts'

/** Every role that there is keeps what everybody who was signed in could do: report errors of a client. */
export const reportRight: Migration = {
  id: 12,
  name: 'report right',
  sql: `
update role set permissions = json_insert(permissions, '$[#]', 'system_error.report')
where case when json_valid(permissions) then permissions not like '%"*"%' and permissions not like '%"system_error.report"%' end;
`,
}
