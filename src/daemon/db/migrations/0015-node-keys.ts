import type { Migration } from '../migrations.ts'

/**
 * The right to a node's key has a name of its own. Whoever held `node.create` could enrol an agent for any node and goes on
 * holding that; `node.update` alone does not lead to keys any more.
 */
export const nodeKeys: Migration = {
  id: 15,
  name: 'node keys',
  sql: ['role', 'api_key'].map(addRotateKey).join('\n'),
}

function addRotateKey(table: string): string {
  const held = `from json_each(${table}.permissions) where value = 'node.create' or value like 'node.create:%'`
  return `
update ${table} set permissions = (
  select json_group_array(value) from (
    select value from json_each(${table}.permissions)
    union all
    select 'node.rotate_key' || substr(value, length('node.create') + 1) ${held}
  )
) where exists (select 1 ${held});`
}
