import {
  cancelMigration,
  getMigration,
  listMigrations,
  pauseMigration,
  startMigration,
} from '../../src/shared/api/migration.ts'
import { createNode, createNodeKey } from '../../src/shared/api/nodes.ts'
import type { MigrationId } from '../../src/shared/kernel/ids.ts'
import { AgentPeer } from '../daemon/agent-peer.ts'
import type { Make, Valid } from './inputs.ts'
import { NOBODY_LISTENS, until, type World } from './world.ts'

const ACCESS = { url: NOBODY_LISTENS, key: 'ptla_of_somebody' }

/** The cases of each world that have a migration, one after the other: only one may be under way. */
const turns = new WeakMap<World, Promise<void>>()

async function turn(world: World): Promise<() => void> {
  const before = turns.get(world)
  let release = (): void => {}
  turns.set(
    world,
    new Promise((resolve) => {
      release = resolve
    }),
  )
  await before
  return release
}

/** What starts a migration to a node that is connected; nothing else is under way until `after`. */
async function body(world: World) {
  const release = await turn(world)
  await ended(world)
  const name = `name-${world.next()}`
  const locationId = (world.ids['locationId'] ?? '') as never // written by buildWorld
  const { id: nodeId } = await world.admin.call(createNode, {
    body: { name, locationId, maxMemoryMb: 1024, maxCpuCores: 2 },
  })
  const { apiKey } = await world.admin.call(createNodeKey, { params: { nodeId } })
  const peer = await AgentPeer.connect(world.panel.url, nodeId, apiKey)
  await peer.enter()
  const after = async (): Promise<void> => {
    release()
    await peer.leave()
  }
  return { body: { ...ACCESS, nodeMappings: { 1: nodeId } }, after }
}

/** One whose source does not answer, so that it stays with its plan for some seconds. */
async function started(world: World): Promise<{ readonly jobId: MigrationId; readonly after: () => Promise<void> }> {
  const { body: asked, after } = await body(world)
  const { jobId } = await world.admin.call(startMigration, { body: asked as never })
  return { jobId, after }
}

/** Ends what is under way: there is one at a time. */
async function ended(world: World): Promise<void> {
  const open = async () => {
    const jobs = await world.admin.call(listMigrations, { query: { limit: 100 } })
    return jobs.filter(({ status }) => !['completed', 'failed', 'cancelled'].includes(status))
  }
  for (const { jobId } of await open()) {
    await world.admin.call(cancelMigration, { params: { jobId }, body: {} }).catch(() => undefined) // it may end by itself
  }
  await until(
    async () => (await open()).length === 0,
    () => 'no migration is under way',
  )
}

async function inState(world: World, jobId: MigrationId, status: string): Promise<void> {
  const isSo = async () => (await world.admin.call(getMigration, { params: { jobId } })).status === status
  await until(isSo, () => `the migration is ${status}`)
}

/** One with a step that has failed, which another attempt can carry out by itself. */
async function failed(world: World): Promise<Valid> {
  const { jobId, after } = await started(world)
  await world.admin.call(cancelMigration, { params: { jobId }, body: {} })
  await inState(world, jobId, 'cancelled')
  const stepId = `mgs_${`${world.next()}`.padStart(26, '0')}`
  const { db, vault } = world.panel.app.core
  const keys = vault.seal(
    `migration_job.keys ${jobId}`,
    JSON.stringify({ kind: 'panel', url: ACCESS.url, key: ACCESS.key, clientApiKey: null, insecure: false }),
  )
  const name = `name-${world.next()}`
  const input = { source: { id: '1', name, description: '' }, name, op: 'create' }
  await db.write(async (tx) => {
    const set = { status: 'failed', keys, sourceFp: jobId, planHash: 'x' } as const
    await tx.q.updateTable('migrationJob').set(set).where('id', '=', jobId).execute()
    await tx.q
      .insertInto('migrationStep')
      .values({
        ...{ jobId, id: stepId, seq: 1, phase: 'locations', action: 'import_location', name, status: 'failed' },
        ...{ sourceType: 'location', sourceId: '1', targetId: null, attempt: 1, input: JSON.stringify(input) },
        updatedAt: tx.now,
      })
      .execute()
  })
  return { params: { jobId, stepId }, after }
}

/** Valid requests of migrations. */
export const MIGRATION_INPUTS: Readonly<Record<string, Make>> = {
  'migration.start': async (world) => {
    const made = await body(world)
    return { ...made, otherBody: { ...made.body, dryRun: true } }
  },
  'migration.test': () => ({ body: ACCESS, otherBody: { ...ACCESS, insecure: true } }),
  'migration.get': async (world) => {
    const { jobId, after } = await started(world)
    return { params: { jobId }, after }
  },
  'migration.steps': async (world) => {
    const { jobId, after } = await started(world)
    return { params: { jobId }, after }
  },
  'migration.pause': async (world) => {
    const { jobId, after } = await started(world)
    return { params: { jobId }, after }
  },
  'migration.resume': async (world) => {
    const { jobId, after } = await started(world)
    await world.admin.call(pauseMigration, { params: { jobId } })
    await inState(world, jobId, 'paused').catch(() => undefined) // it has failed meanwhile: that can be resumed too
    return { params: { jobId }, body: {}, otherBody: { retryFailed: true }, after }
  },
  'migration.cancel': async (world) => {
    const { jobId, after } = await started(world)
    return { params: { jobId }, body: {}, otherBody: { rollback: true }, after }
  },
  'migration.retry': failed,
}
