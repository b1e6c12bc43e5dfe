// @module-tag long
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { getMigration, listTargetNodes, type MigrationDetail, startMigration } from '../../src/shared/api/migration.ts'
import { updateNode } from '../../src/shared/api/nodes.ts'
import { listServers } from '../../src/shared/api/servers.ts'
import { unsuspendServer } from '../../src/shared/api/suspension.ts'
import type { MigrationId } from '../../src/shared/kernel/ids.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { until } from '../e2e/wait.ts'
import { sourceFlags } from '../migration-source/flags.ts'
import { type SourceSimulator, startSource } from '../migration-source/source-simulator.ts'

let panel: SplitPanel
let source: SourceSimulator

afterEach(async () => {
  // One is suspended on the source, and so here: it is not deleted like the others.
  for (const { id, status } of await panel.client.call(listServers, { query: { limit: 100 } })) {
    if (status === 'suspended') await panel.client.call(unsuspendServer, { params: { serverId: id } })
  }
  await panel.leave()
  await source.close()
})

async function enter(flags: string): Promise<MigrationId> {
  ;[panel, source] = await Promise.all([SplitPanel.enter(), startSource(sourceFlags(`${flags} --throttle 100000`))])
  const [node] = await panel.client.call(listTargetNodes)
  const nodeId = node?.id ?? ('' as never)
  await panel.client.call(updateNode, { params: { nodeId }, body: { maxMemoryMb: 1_000_000 } })
  const { url, keys } = source
  const options = { conflicts: { port: 'remap' }, runtimes: ['process'] }
  const nodeMappings = Object.fromEntries(source.world.nodes.map(({ id }) => [String(id), nodeId]))
  const body = { url, key: keys.application, clientApiKey: keys.account, nodeMappings, options }
  return (await panel.client.call(startMigration, { body: body as never })).jobId
}

const get = (jobId: MigrationId): Promise<MigrationDetail> => panel.client.call(getMigration, { params: { jobId } })

/** What has begun and what has ended of it. */
const marks = ({ steps }: MigrationDetail): string[] =>
  steps.flatMap(({ stepId, status }) =>
    status === 'pending' ? [] : status === 'running' ? [`${stepId} begun`] : [`${stepId} begun`, `${stepId} ended`],
  )

async function expectWhole(jobId: MigrationId, before: ReturnType<SourceSimulator['state']>): Promise<void> {
  const job = await get(jobId)
  const failed = job.steps.filter(({ status }) => status === 'failed')
  expect({ status: job.status, failed: failed.map(({ action, error }) => `${action} ${error}`) }).toEqual({
    status: 'completed',
    failed: [],
  })
  const servers = await panel.client.call(listServers, { query: { limit: 100 } })
  expect(servers.map(({ uuid }) => uuid).sort()).toEqual(source.world.servers.map(({ uuid }) => uuid).sort())
  for (const { id, uuid } of servers) {
    const want = Object.entries(source.manifest()[uuid] ?? {}).map(([path, { sha256 }]) => [path, sha256])
    expect(await filesOf(panel.filesOf(id))).toEqual(Object.fromEntries(want))
  }
  expect(source.state()).toEqual(before)
  expect(new Set(job.steps.map(({ stepId }) => stepId)).size).toBe(job.steps.length)
}

async function filesOf(folder: string): Promise<Record<string, string>> {
  const found = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  const hashes = found.map(async ({ parentPath, name }) => {
    const path = join(parentPath, name)
    return [
      path.slice(folder.length + 1),
      createHash('sha256')
        .update(await readFile(path))
        .digest('hex'),
    ] as const
  })
  return Object.fromEntries((await Promise.all(hashes)).sort())
}

it('the daemon is killed at every boundary of a step in turn: it goes on, and nothing is there twice', async () => {
  const jobId = await enter(
    '--servers 2 --nodes 1 --suspended 1 --full-slots 1 --zero-slots 0 --files-per-server 2 --file-kb 8',
  )
  const before = source.state()
  let kills = 0
  for (const seen = new Set(marks(await get(jobId))); ; kills++) {
    const job = await until(
      'something to begin or to end',
      async () => {
        const now = await get(jobId)
        return now.status === 'completed' || marks(now).some((mark) => !seen.has(mark)) ? now : undefined
      },
      120_000,
    )
    if (job.status === 'completed') break
    expect(job.status).not.toBe('failed')
    for (const mark of marks(job)) seen.add(mark)
    await panel.killDaemon()
    // An agent that has lost its daemon several times in a minute waits up to half a minute before it comes back.
    await panel.killAgent('SIGTERM')
    await panel.startDaemon()
    await panel.startAgent()
  }
  expect(kills).toBeGreaterThan(20)
  await expectWhole(jobId, before)
}, 1_200_000)

it.each(['daemon', 'agent'] as const)(
  'the %s is killed inside a transfer of each kind',
  async (party) => {
    const jobId = await enter(
      '--servers 2 --nodes 1 --suspended 1 --full-slots 0 --zero-slots 0 --files-per-server 4 --file-kb 512 --slow-bps 400000',
    )
    const before = source.state()
    const killed = new Set<string>()
    for (;;) {
      const job = await get(jobId)
      if (job.status === 'completed') break
      expect(job.status).not.toBe('failed')
      const busy = job.steps.find(
        ({ action, status, stepId }) => action === 'transfer_files' && status === 'running' && !killed.has(stepId),
      )
      if (busy === undefined) {
        await new Promise((resolve) => setTimeout(resolve, 100))
        continue
      }
      killed.add(busy.stepId)
      await new Promise((resolve) => setTimeout(resolve, 1000))
      if (party === 'daemon') {
        await panel.killDaemon()
        await panel.startDaemon()
      } else {
        await panel.killAgent()
        await panel.startAgent()
      }
      await panel.online()
    }
    expect(killed.size).toBe(2)
    await expectWhole(jobId, before)
  },
  600_000,
)
