import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type BackupStage, enterBackupStage } from '../daemon/backups/backup-stage.ts'
import { eventually } from '../daemon/gateway-stage.ts'
import { BACKUP_COMMANDS } from './backup-command-paths.ts'
import { walkPanel } from './command-walk.ts'

let stage: BackupStage
const { ok, json, refused, run, left } = walkPanel(BACKUP_COMMANDS, () => stage.panel)

beforeAll(async () => {
  stage = await enterBackupStage()
})
afterAll(() => stage.close())

it('backups are made, looked into, downloaded, restored, kept and deleted', { timeout: 60_000 }, async () => {
  const [home, name] = [stage.panel.home, 'backups']
  const inside = (path: string): string => join(stage.folder, path)
  mkdirSync(inside('world'))
  writeFileSync(inside('world/level.dat'), 'level')
  writeFileSync(inside('large'), randomBytes(700_000))
  writeFileSync(inside('latest.log'), 'log')

  await refused(6, ['backups', 'view', name, 'latest'])
  expect(
    await json(['backups', 'settings', name, '--retention', '5', '--label', 'weekly=2/9d', '--exclude', '*.log']),
  ).toMatchObject({
    retentionCount: 5,
    labels: [{ label: 'weekly', retentionCount: 2, retentionDays: 9 }],
    ignored: ['*.log'],
  })
  expect(await ok(['backups', 'settings', name])).toContain('weekly=2/9d')
  await refused(2, ['backups', 'settings', name, '--label', 'weekly'])
  await refused(8, ['backups', 'settings', name, '--quiesce', 'save => (', '--resume', 'on'])

  const made = await json(['backups', 'create', name, '--name', 'first', '--lock', '--compression', 'none', '--wait'])
  expect(made).toMatchObject({ name: 'first', status: 'completed', locked: true })
  const started = await json(['backups', 'create', name, '--incremental', '--label', 'weekly', '--no-wait'])
  expect(started).toMatchObject({ status: 'pending', jobId: expect.any(String) })
  await stage.job(started.jobId)
  expect((await json(['backups', 'list', name, '--limit', '1'])).map(({ id }: { id: string }) => id)).toEqual([
    started.backupId,
  ])
  expect(await ok(['backups', 'list', '--all-servers', '-o', 'csv'])).toContain('backups,first')
  await refused(2, ['backups', 'list'])
  expect(await json(['backups', 'view', name, 'latest'])).toMatchObject({ id: started.backupId, kind: 'incremental' })

  const listed = await json(['backups', 'ls', name, 'first', '-r'])
  expect(listed.map(({ path }: { path: string }) => path)).toEqual(['/large', '/world', '/world/level.dat'])
  expect(await ok(['backups', 'download', name, 'first', '--file', 'world/level.dat', '--out', '-'])).toBe('level')
  const file = join(home, 'first.tar')
  await ok(['backups', 'download', name, 'first', '--out', file])
  expect(execFileSync('tar', ['-tf', file], { encoding: 'utf8' })).toContain('world/level.dat')
  const whole = readFileSync(file)
  await refused(2, ['backups', 'download', name, 'first', '--out', file])
  symlinkSync('/dev/full', `${file}.full.partial`)
  expect(
    (await refused(14, ['backups', 'download', name, 'first', '--out', `${file}.full`, '--resume'])).stderr,
  ).toContain('cannot be written: the disk is full')
  rmSync(`${file}.full.partial`)
  writeFileSync(`${file}.partial`, whole.subarray(0, 300_000))
  expect(
    (await refused(0, ['backups', 'download', name, 'first', '--out', file, '--resume', '--force'])).stderr,
  ).toContain('going on at')
  expect(readFileSync(file).equals(whole)).toBe(true)
  // What was left is not of this backup: nothing of it appears.
  rmSync(file)
  writeFileSync(`${file}.partial`, Buffer.alloc(300_000))
  expect((await refused(11, ['backups', 'download', name, 'first', '--out', file, '--resume'])).stderr).toContain(
    'hash',
  )
  expect(readdirSync(home).filter((one) => one.startsWith('first'))).toEqual([])

  rmSync(inside('world'), { recursive: true })
  writeFileSync(inside('large'), 'small')
  await refused(2, ['backups', 'restore', name, 'first', '--wait'])
  await ok(['backups', 'restore', name, 'first', '--path', 'world', '--yes', '--wait'])
  expect([readFileSync(inside('world/level.dat'), 'utf8'), readFileSync(inside('large'), 'utf8')]).toEqual([
    'level',
    'small',
  ])
  await ok(['backups', 'restore', name, 'first', '--confirm', name, '--wait'])
  expect(readFileSync(inside('large')).length).toBe(700_000)
  expect(existsSync(inside('latest.log'))).toBe(false)

  await ok(['backups', 'edit', name, 'first', '--name', 'kept', '--label', 'weekly'])
  await refused(7, ['backups', 'delete', name, 'kept', '--yes'])
  await ok(['backups', 'unlock', name, 'kept'])
  await ok(['backups', 'lock', name, 'kept'])
  await ok(['backups', 'verify', name, 'kept', '--wait'])
  const [damaged] = readdirSync(join(stage.panel.dataDir, 'agent/backups'), {
    recursive: true,
    encoding: 'utf8',
  }).filter((one) => one.endsWith('.tar'))
  truncateSync(join(stage.panel.dataDir, 'agent/backups', damaged ?? 'none'), 400_000)
  expect((await refused(11, ['backups', 'verify', name, 'kept', '--wait'])).stderr).toContain('damaged: kept')
  expect(await ok(['backups', 'view', name, 'kept', '-o', 'csv'])).toContain('damaged')
  const pruned = await json(['backups', 'prune', name, '--keep', '1', '--keep-days', '0', '--dry-run'])
  expect(pruned).toEqual([])
  await ok(['backups', 'prune', name, '--orphans', '--yes', '--wait'])
  await ok(['backups', 'delete', name, 'latest', '--yes', '--wait'])
  await ok(['backups', 'delete', name, 'nothing', '--yes', '--ignore-not-found'])
})

it('backups whose server is gone are found, given to another server and deleted', { timeout: 60_000 }, async () => {
  const gone = await stage.another('gone')
  await stage.another('heir')
  await ok(['backups', 'create', 'gone', 'heir', '--wait', '--name', 'both'])
  await ok(['backups', 'create', 'gone', '--wait', '--name', 'second'])
  await ok(['servers', 'delete', 'gone', '--confirm', 'gone'])
  await eventually(
    () => json(['backups', 'orphans', 'list']),
    (rows) => rows.length === 2,
  )
  expect(await json(['backups', 'orphans', 'view', 'both'])).toMatchObject({ ownerId: gone.serverId, orphaned: true })
  await ok(['backups', 'orphans', 'delete', 'both', '--force', '--yes'])
  const { added } = await json(['backups', 'scan', 'local', '--dry-run'])
  expect(added).toMatchObject([{ name: 'both', orphaned: true }])
  expect(await ok(['backups', 'scan', 'local'])).toContain('both')
  expect(await json(['backups', 'orphans', 'reattach', 'both', 'heir'])).toMatchObject({ orphaned: false })
  await ok(['backups', 'orphans', 'delete', 'second', '--yes', '--wait'])
  expect((await run(['backups', 'orphans', 'list', '-o', 'json'])).stdout.trim()).toBe('[]')
  expect(left()).toEqual([])
})
