import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { MIGRATIONS, migrate } from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'

it('an upgrade keeps templates as they are, with what refers to them', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'panel-template-rows-'))
  const file = join(folder, 'panel.db')
  try {
    await migrate(file, MIGRATIONS.slice(0, 28))
    const before = await Connection.open(file, 'existing')
    const definition = JSON.stringify({ startup: 'x'.repeat(30_000) })
    await before.exec(`
      insert into nest (id, name, created_at, updated_at) values ('nest_1', 'Nest', '2026', '2026');
      insert into template values ('tpl_1', 'One', 'nest_1', '${definition}', '2026', '2027'), ('tpl_2', 'Two', null, '{}', '2026', '2026');
      insert into template_egg (template_id, format, document) values ('tpl_1', 'PTDL_v2', '{}');`)
    const rows = await before.all('select * from template order by id')
    await before.close()
    expect(await migrate(file)).toMatchObject({ from: 28, to: MIGRATIONS.length })

    const after = await Connection.open(file, 'existing')
    try {
      await after.exec('pragma foreign_keys = on')
      expect(await after.all('select * from template order by id')).toEqual(rows)
      const tables = await after.all(
        "select name, sql from sqlite_schema where sql like '%references%template%' order by name",
      )
      expect(tables.map(({ name }) => name)).toEqual(['server', 'template_egg'])
      expect(tables.every(({ sql }) => /references template \(id\)/.test(String(sql)))).toBe(true)
      const insert = (id: string, name: string) =>
        after.exec(`insert into template values (${id}, '${name}', null, '{}', '2026', '2026')`)
      await expect(insert("'tpl_3'", 'ONE')).rejects.toThrow('UNIQUE constraint failed: template.name')
      await expect(insert("'tpl_1'", 'Three')).rejects.toThrow('UNIQUE constraint failed: template.id')
      await expect(insert('null', 'Three')).rejects.toThrow('NOT NULL constraint failed: template.id')
      await after.exec("delete from nest; delete from template where id = 'tpl_1'")
      expect(await after.all('select id, nest_id from template')).toEqual([{ id: 'tpl_2', nest_id: null }])
      expect(await after.all('select * from template_egg')).toEqual([])
      // What joins servers with names of templates reads no more than these.
      const plan = await after.all("explain query plan select name from template where id = 'tpl_2'")
      expect(String(plan[0]?.['detail'])).toMatch(/USING INDEX/)
    } finally {
      await after.close()
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})
