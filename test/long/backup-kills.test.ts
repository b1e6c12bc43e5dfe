// @module-tag long
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as backups from '../../src/shared/protocol/backups.ts'
import type { RequestDefinition } from '../../src/shared/protocol/define.ts'
import { BackupStage, creation, type NamedBackup, restoring, STORE } from '../agent/backups/backup-stage.ts'
import { until } from '../e2e/wait.ts'
import { skippedUnless } from '../skips.ts'

/** What changes a file system, as Node calls it; the agent is ended at the first, the second, the third of each thread, and so on. */
const CHANGES = 'rename,renameat2,mkdir,mkdirat,unlink,unlinkat,rmdir,fsync,symlink,symlinkat,fchmod,fchown,utimensat'
const hasStrace = spawnSync('strace', ['-qq', '-e', 'trace=none', 'true']).status === 0
const WHY_NOT = skippedUnless(hasStrace, 'strace, and the right to trace')
const MOST_POINTS = 400

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

/**
 * Asks with an agent that is ended at the change of this number, and starts another one; `false` when the work had fewer changes and
 * was done.
 */
async function killedAt(
  point: number,
  definition: RequestDefinition,
  input: Record<string, unknown>,
): Promise<boolean> {
  const inject = `inject=${CHANGES}:signal=KILL:when=${point}`
  const args = ['-f', '-p', String(stage.stage.pid), '-e', `trace=${CHANGES}`, '-e', inject]
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
      for (let point = 1; point < MOST_POINTS; point++) {
        const name = stage.name(kind)
        const input = { serverId: stage.serverId, ...name, ...creation() }
        const wasKilled = await killedAt(point, backups.createBackup, input)
        for (const id of await stored()) await expectWhole({ ...name, backupId: id })
        await stage.ask(backups.createBackup, input)
        await expectWhole(name)
        await stage.ask(backups.deleteBackup, { ...name })
        expect(readdirSync(join(stage.stage.dataDir, 'backups', STORE.storeId))).toEqual([])
        expect(readdirSync(stage.stage.dataDir).filter((entry) => entry === 'backup-work')).toEqual([])
        if (wasKilled) continue
        process.stdout.write(`${kind}: a backup has ${point - 1} points\n`)
        expect(point).toBeGreaterThan(5)
        return
      }
      expect.unreachable('the work has more points than were tried')
    })

    it('of a backup that is given up: what deletes it leaves nothing', async () => {
      for (let point = 1; point < MOST_POINTS; point++) {
        const name = stage.name(kind)
        const wasKilled = await killedAt(point, backups.createBackup, {
          serverId: stage.serverId,
          ...name,
          ...creation(),
        })
        await stage.ask(backups.deleteBackup, { ...name })
        expect(readdirSync(join(stage.stage.dataDir, 'backups', STORE.storeId))).toEqual([])
        if (!wasKilled) return
      }
    })

    it('of a restore: there is the old or the new tree, the next attempt makes it the new one, and nothing is left', async () => {
      fill('new')
      const wanted = sums()
      const name = stage.name(kind)
      await stage.ask(backups.createBackup, { serverId: stage.serverId, ...name, ...creation() })
      for (let point = 1; point < MOST_POINTS; point++) {
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
        if (wasKilled) continue
        process.stdout.write(`${kind}: a restore has ${point - 1} points\n`)
        await stage.ask(backups.deleteBackup, { ...name })
        expect(point).toBeGreaterThan(10)
        return
      }
      expect.unreachable('the work has more points than were tried')
    })

    it('of a deletion of one of two: the other one stays whole, and the next attempt removes it', async () => {
      fill('first')
      const kept = stage.name(kind)
      await stage.ask(backups.createBackup, { serverId: stage.serverId, ...kept, ...creation() })
      for (let point = 1; point < MOST_POINTS; point++) {
        writeFileSync(join(stage.folder, 'other'), randomBytes(2_000_000))
        const name = stage.name(kind)
        await stage.ask(backups.createBackup, { serverId: stage.serverId, ...name, ...creation() })
        const wasKilled = await killedAt(point, backups.deleteBackup, { ...name })
        await expectWhole(kept)
        await stage.ask(backups.deleteBackup, { ...name })
        expect(await stored()).toEqual([kept.backupId])
        await expectWhole(kept)
        if (wasKilled) continue
        process.stdout.write(`${kind}: a deletion has ${point - 1} points\n`)
        await stage.ask(backups.deleteBackup, { ...kept })
        return
      }
    })
  },
)
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Backup } from '../../src/shared/api/backups.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { pause, until } from '../e2e/wait.ts'

/** Milliseconds after the request at which the daemon is killed: from before the node begins until after its end. */
const MOMENTS = [0, 10, 25, 50, 100, 200, 350, 500, 800, 1200]

let panel: SplitPanel
let serverId: string
let folder: string
beforeAll(async () => {
  panel = await SplitPanel.enter()
  const server = await panel.makeServer('kept', await panel.makeTemplate('kept', 'echo ready; sleep 1000'), {
    diskMb: 512,
  })
  serverId = server.id
  folder = panel.filesOf(serverId)
}, 120_000)
afterAll(async () => {
  await panel.leave()
})

async function api(method: string, path: string, body?: unknown) {
  const headers = {
    authorization: `Bearer ${panel.token}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  const answer = await fetch(`${panel.url}/api${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return {
    status: answer.status,
    ...(JSON.parse(await answer.text()) as { data: ReturnType<typeof JSON.parse>; code?: string }),
  }
}

/** Writes files that are all new, and none of those before. */
function fill(): string {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true })
  for (let i = 0; i < 40; i++) {
    mkdirSync(join(folder, `world${i % 4}`), { recursive: true })
    writeFileSync(join(folder, `world${i % 4}`, `r.${i}`), randomBytes(600_000))
  }
  return tree()
}

function tree(): string {
  const hash = createHash('sha256')
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  for (const name of names.sort()) hash.update(name).update(readFileSync(name))
  return `${names.length} ${hash.digest('hex')}`
}

/** What lies in the store of the node, and beside the servers' folders. */
function lies(): string[] {
  const [store, servers] = [join(panel.home, 'agent', 'backups'), join(panel.home, 'agent', 'servers')]
  const kept = existsSync(store)
    ? readdirSync(store, { recursive: true, encoding: 'utf8', withFileTypes: true })
        .filter((entry) => entry.isFile() && !entry.name.endsWith('.lock'))
        .map((entry) => join(entry.parentPath, entry.name).slice(store.length))
    : []
  return [...kept, ...readdirSync(servers)].sort()
}

/** Kills the daemon so long after the request, starts it again, and waits for the end of the job. */
async function killedAfter(ms: number, ask: () => Promise<Awaited<ReturnType<typeof api>>>) {
  // An agent that has lost its daemon several times in a minute waits up to half a minute before it comes back.
  await panel.killAgent()
  await panel.startAgent()
  await panel.online()
  const { data, status } = await ask()
  expect(status).toBe(202)
  await pause(ms)
  await panel.killDaemon()
  await panel.startDaemon()
  await panel.online()
  const job = await until(
    'the job has ended',
    async () => {
      const { data: now } = await api('GET', `/jobs/${data.jobId}`)
      return now.endedAt !== null ? now : undefined
    },
    120_000,
  )
  return { job, backupId: data.backupId as string }
}

const of = (path: string): string => `/servers/${serverId}/backups${path}`

it.each(['archive', 'incremental'] as const)(
  'a backup (%s) whose daemon is killed at any point is whole in the end, or failed with nothing left of it',
  { timeout: 900_000 },
  async (kind) => {
    for (const ms of MOMENTS) {
      const before = fill()
      const { job, backupId } = await killedAfter(ms, () => api('POST', of(''), { kind, name: `after-${ms}` }))
      const { data } = await api('GET', `/backups/${backupId}`)
      const backup = data as Backup
      expect([ms, job.status, backup.status]).toEqual([ms, 'succeeded', 'completed'])
      for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true })
      const { data: started } = await api('POST', of(`/${backupId}/restore`), {})
      const ended = await until('it is restored', async () => {
        const { data: now } = await api('GET', `/jobs/${started.jobId}`)
        return now.endedAt !== null ? now : undefined
      })
      expect([ms, ended.status, ended.error]).toEqual([ms, 'succeeded', null])
      expect([ms, tree()]).toEqual([ms, before])
      await api('DELETE', of(`/${backupId}`))
      await until('it is deleted', async () => (await api('GET', `/backups/${backupId}`)).code === 'BACKUP_NOT_FOUND')
    }
    const { data: prune } = await api('POST', of('/prune'), { orphans: true })
    for (const jobId of prune.jobIds)
      await until('it is tidied', async () => (await api('GET', `/jobs/${jobId}`)).data.endedAt !== null)
    // Nothing but the server's own folder.
    expect(lies().filter((name) => name.includes('after') || name.includes('bak_'))).toEqual([])
  },
)

it('a restore whose daemon is killed at any point is done in the end, and nothing is left beside the server', {
  timeout: 900_000,
}, async () => {
  const before = fill()
  const { data: made } = await api('POST', of(''), { name: 'good' })
  await until('it is made', async () => (await api('GET', `/backups/${made.backupId}`)).data.status === 'completed')
  const there = lies()
  for (const ms of MOMENTS) {
    fill()
    const { job } = await killedAfter(ms, () => api('POST', of(`/${made.backupId}/restore`), {}))
    expect([ms, job.status, job.error]).toEqual([ms, 'succeeded', null])
    expect([ms, tree()]).toEqual([ms, before])
    expect([ms, (await api('GET', `/backups/${made.backupId}`)).data.status]).toEqual([ms, 'completed'])
    expect([
      ms,
      await until('nothing is left', async () => (lies().length === there.length ? lies() : undefined)),
    ]).toEqual([ms, there])
  }
})
