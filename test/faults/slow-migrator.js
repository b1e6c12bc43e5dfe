// Migrates FILE with all steps of the program and one more that writes so many rows: `node slow-migrator.js DIST FILE ROWS`.
import { pathToFileURL } from 'node:url'

const [dist, file, rows] = process.argv.slice(2)
const { MIGRATIONS, migrate } = await import(pathToFileURL(`${dist}/src/daemon/db/migrations.js`).href)
const numbers = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${Number(rows)})`
const sql = `create table later (a integer, b text) strict;
insert into later ${numbers} select i, hex(randomblob(50)) from n;
update location set description = 'migrated';`
process.stdout.write('begins\n')
await migrate(file, [...MIGRATIONS, { id: MIGRATIONS.length + 1, name: 'later', sql }])
