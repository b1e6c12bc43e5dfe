import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { migrate } from '../src/daemon/db/migrations.ts'
import { Connection } from '../src/daemon/db/sqlite/connection.ts'
import { ROOT } from './module-graph.ts'

/** What becomes of a row when the one is deleted that it names. */
const WORDS: Readonly<Record<string, string>> = {
  CASCADE: 'goes with it',
  'SET NULL': 'stays without it',
  'NO ACTION': 'holds it',
}

it('docs/database.md draws every table and every reference as the migrations have made them', async () => {
  const page = await readFile(join(ROOT, 'docs/database.md'), 'utf8')
  const folder = await mkdtemp(join(tmpdir(), 'panel-schema-'))
  const file = join(folder, 'panel.db')
  await migrate(file)
  const connection = await Connection.open(file, 'existing')
  try {
    const names = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name"
    const tables = (await connection.all(names)).map(({ name }) => String(name))
    const lines: string[] = []
    for (const table of tables) {
      const columns = await connection.all(`pragma table_info(${table})`)
      for (const { from, table: to, on_delete } of await connection.all(`pragma foreign_key_list(${table})`)) {
        const isNeeded = columns.some(({ name, notnull }) => name === from && notnull === 1)
        const word = WORDS[String(on_delete)]
        lines.push(`${to} ${isNeeded ? '||' : '|o'}--o{ ${table} : "${from}: ${word}"`)
      }
    }
    const drawn = page.split('\n').flatMap((line) => (line.includes('--o{') ? [line.trim()] : []))
    expect(drawn.sort()).toEqual(lines.sort())
    const rows = [...page.matchAll(/^\| `([a-z_]+)` \| .+ \|$/gm)].map(([, name]) => name)
    expect(rows.sort()).toEqual(tables)
  } finally {
    await connection.close()
    await rm(folder, { recursive: true })
  }
})
