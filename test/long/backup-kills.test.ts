// @module-tag long
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as backups from '../../src/shared/protocol/backups.ts'
import type { RequestDefinition } from '../../src/shared/protocol/define.ts'
import { BackupStage, creation, type NamedBackup, restoring, STORE } from '../agent/backups/backup-stage.ts'
import { until } from '../e2e/wait.ts'
import { skippedUnless } from '../skips.ts'

/** What changes a file system, as Node calls it. The agent is ended at the first, the second, the third of each, until the work has no more. */
const CHANGES = [
  'mkdir',
  'rename',
  'fsync',
  'unlink',
  'rmdir',
  'symlink',
  'fchmod',
  'fchown',
  'utimensat',
  'write',
] as const
const hasStrace = spawnSync('strace', ['-qq', '-e', 'trace=none', 'true']).status === 0
const WHY_NOT = skippedUnless(hasStrace, 'strace, and the right to trace')
const MOST_POINTS = 60
/** Of writes there are as many as pieces: the first ones are enough. */
const MOST_WRITES = 6

let stage: BackupStage
const folders = (): string[] => readdirSync(join(stage.stage.dataDir, 'servers')).sort()

beforeAll(async () => {
  // One thread for all that the agent has done behind its back: the points come in one order.
  process.env['UV_THREADPOOL_SIZE'] = '1'
  stage = await BackupStage.enter()
}, 60_000)
afterAll(async () => {
  delete process.env['UV_THREADPOOL_SIZE']
  await stage.leave()
}, 60_000)

/** The tree of one version. */
function fill(version: string): void {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  mkdirSync(join(stage.folder, 'world', 'region'), { recursive: true })
  for (const name of ['a', 'world/b', 'world/region/c']) writeFileSync(join(stage.folder, name), `${version} ${name}`)
  writeFileSync(join(stage.folder, 'world', 'large'), randomBytes(700_000))
  symlinkSync('a', join(stage.folder, 'link'))
}

function sums(): string {
  const script = 'find . -type f -print0 | sort -z | xargs -0 sha256sum; find . -printf "%y %m %p %l\\n" | sort'
  return execFileSync('sh', ['-c', script], { cwd: stage.folder, encoding: 'utf8' })
}

/** Asks with an agent that is ended at this change, and starts another one; `false` when the work was done before it came to that. */
async function killedAt(
  { change, number }: Point,
  definition: RequestDefinition,
  input: Record<string, unknown>,
): Promise<boolean> {
  const inject = `inject=${change}:signal=KILL:when=${number}`
  const args = ['-f', '-p', String(stage.stage.pid), '-e', `trace=${change}`, '-e', inject]
  const tracer = spawn('strace', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  tracer.stderr.on('data', (piece: Buffer) => {
    said += piece.toString()
  })
  await until('the tracer is there', async () => /attached/.test(said))
  const done = stage.ask(definition, input).then(
    () => true,
    () => false, // nobody answers any more
  )
  const ended = once(tracer, 'exit').then(() => false)
  const isDone = await Promise.race([done, ended])
  if (isDone) {
    tracer.kill('SIGINT')
    await ended
    return false
  }
  await stage.stage.killAgent()
  await stage.stage.startAgent()
  return true
}

interface Point {
  readonly change: (typeof CHANGES)[number]
  readonly number: number
}

/** Does it for each point, until the work has no more of a kind; answers how many there were. */
async function atEachPoint(work: (point: Point) => Promise<boolean>): Promise<number> {
  let points = 0
  for (const change of CHANGES) {
    const most = change === 'write' ? MOST_WRITES : MOST_POINTS
    for (let number = 1; number <= most; number++) {
      if (!(await work({ change, number }))) break
      points++
    }
  }
  return points
}

const namesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : [])
const storeFolder = (): string[] => namesIn(join(stage.stage.dataDir, 'backups', STORE.storeId))
const onItsWay = (): string[] => namesIn(join(stage.stage.dataDir, 'backup-work'))

async function stored(): Promise<string[]> {
  const all = { store: STORE, ownerId: null, after: null, limit: 100 }
  return (await stage.ask(backups.listStored, all)).backups.map(({ backupId }) => backupId)
}

async function expectWhole({ backupId, kind }: NamedBackup): Promise<void> {
  const check = { store: STORE, ownerId: stage.serverId, backups: [{ backupId, kind }], deep: true }
  expect((await stage.ask(backups.verifyBackups, check)).damaged).toEqual([])
}

describe.skipIf(!hasStrace).each(['archive', 'incremental'] as const)(
  `an agent that is killed at each point, %s${WHY_NOT}`,
  (kind) => {
    it('of a backup: there is none or a whole one, the next attempt makes it, and nothing is left', async () => {
      fill('first')
      const points = await atEachPoint(async (point) => {
        const name = stage.name(kind)
        const input = { serverId: stage.serverId, ...name, ...creation() }
        const wasKilled = await killedAt(point, backups.createBackup, input)
        for (const id of await stored()) await expectWhole({ ...name, backupId: id })
        await stage.ask(backups.createBackup, input)
        await expectWhole(name)
        await stage.ask(backups.deleteBackup, { ...name })
        expect(storeFolder()).toEqual([])
        expect(onItsWay()).toEqual([])
        return wasKilled
      })
      process.stdout.write(`${kind}: a backup has ${points} points\n`)
      expect(points).toBeGreaterThan(10)
    })

    it('of a backup that is given up: what deletes it leaves nothing', async () => {
      const points = await atEachPoint(async (point) => {
        const name = stage.name(kind)
        const input = { serverId: stage.serverId, ...name, ...creation() }
        const wasKilled = await killedAt(point, backups.createBackup, input)
        await stage.ask(backups.deleteBackup, { ...name })
        expect(storeFolder()).toEqual([])
        return wasKilled
      })
      expect(points).toBeGreaterThan(10)
    })

    it('of a restore: there is the old or the new tree, the next attempt makes it the new one, and nothing is left', async () => {
      fill('new')
      const wanted = sums()
      const name = stage.name(kind)
      await stage.ask(backups.createBackup, { serverId: stage.serverId, ...name, ...creation() })
      const points = await atEachPoint(async (point) => {
        fill('old')
        writeFileSync(join(stage.folder, 'only-old'), 'x')
        const before = sums()
        const input = { serverId: stage.serverId, ...name, ...restoring() }
        const wasKilled = await killedAt(point, backups.restoreBackup, input)
        expect([before, wanted]).toContain(sums())
        await until('nothing is left over', async () => folders().length === 1)
        await stage.ask(backups.restoreBackup, input)
        expect(sums()).toBe(wanted)
        expect(folders()).toEqual([stage.serverId])
        expect(readdirSync(join(stage.stage.dataDir, 'restores'))).toEqual([])
        return wasKilled
      })
      process.stdout.write(`${kind}: a restore has ${points} points\n`)
      expect(points).toBeGreaterThan(20)
      await stage.ask(backups.deleteBackup, { ...name })
    })

    it('of a deletion of one of two: the other one stays whole, and the next attempt removes it', async () => {
      fill('first')
      const kept = stage.name(kind)
      await stage.ask(backups.createBackup, { serverId: stage.serverId, ...kept, ...creation() })
      const points = await atEachPoint(async (point) => {
        writeFileSync(join(stage.folder, 'other'), randomBytes(2_000_000))
        const name = stage.name(kind)
        await stage.ask(backups.createBackup, { serverId: stage.serverId, ...name, ...creation() })
        const wasKilled = await killedAt(point, backups.deleteBackup, { ...name })
        await expectWhole(kept)
        await stage.ask(backups.deleteBackup, { ...name })
        expect(await stored()).toEqual([kept.backupId])
        await expectWhole(kept)
        return wasKilled
      })
      process.stdout.write(`${kind}: a deletion has ${points} points\n`)
      expect(points).toBeGreaterThan(3)
      await stage.ask(backups.deleteBackup, { ...kept })
    })
  },
)
