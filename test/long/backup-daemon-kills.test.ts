// @module-tag long
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
