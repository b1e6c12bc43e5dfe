import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type BackupStage, enterBackupStage } from './backup-stage.ts'

let stage: BackupStage
const at = (...names: string[]): string => join(stage.folder, ...names)

beforeAll(async () => {
  stage = await enterBackupStage()
})
afterAll(() => stage.close())
beforeEach(() => {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  mkdirSync(at('world', 'region'), { recursive: true })
  writeFileSync(at('server.properties'), 'motd=hello\n')
  writeFileSync(at('world', 'level.dat'), Buffer.alloc(300_000, 'level'))
  writeFileSync(at('world', 'region', 'r.mca'), 'region')
})

const tree = (): string[] =>
  readdirSync(stage.folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      return `${path.slice(stage.folder.length + 1)} ${createHash('sha256').update(readFileSync(path)).digest('hex')}`
    })
    .sort()

describe('a backup', () => {
  test('is made, listed newest first, downloaded and restored', async () => {
    const before = tree()
    const made = await stage.make({ name: 'first one', ignored: ['*.log'] })
    expect(made).toMatchObject({ name: 'first_one', status: 'completed', problemCount: 0, orphaned: false })
    expect(made.storedBytes).toBeGreaterThan(0)
    const newer = await stage.make({ kind: 'archive', compression: 'none', label: 'nightly' })
    const list = await stage.ask('GET', '?limit=1')
    expect(list.data.map(({ id }: { id: string }) => id)).toEqual([newer.id])
    expect(list.pagination).toMatchObject({ limit: 1, total: 2 })
    rmSync(at('world'), { recursive: true })
    writeFileSync(at('server.properties'), 'motd=other\n')
    writeFileSync(at('new.txt'), 'new')
    expect(await stage.done('POST', `/${made.id}/restore`, {})).toMatchObject({ status: 'succeeded' })
    expect(tree()).toEqual(before)
    expect((await stage.get(made.id)).restoredAt).not.toBeNull()
  })
})
