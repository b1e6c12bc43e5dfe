// Brings FILE to a schema whose second step takes long: `node migrator.js DIST FILE [new]`; `new`: both steps at once.
import { pathToFileURL } from 'node:url'

const [dist, file, kind] = process.argv.slice(2)
const { migrate } = await import(pathToFileURL(`${dist}/src/daemon/db/migrations.js`).href)
const rows = 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000000)'
const first = { id: 1, name: 'first', sql: 'create table one (a integer) strict;' }
if (kind !== 'new') await migrate(file, [first])
await migrate(file, [
  first,
  {
    id: 2,
    name: 'slow',
    sql: `create table two (a integer, b text) strict; insert into two ${rows} select i, hex(randomblob(50)) from n;`,
  },
])
