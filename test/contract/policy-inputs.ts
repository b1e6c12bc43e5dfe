import { createBackupPolicy, runBackupPolicy } from '../../src/shared/api/backup-policies.ts'
import { createServer } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import type { Make } from './inputs.ts'
import { SIZE, type World } from './world.ts'

/** A policy that never runs by itself. */
async function policy(world: World, serverIds: readonly string[] = []): Promise<string> {
  const times = { cron: '0 4 * * *', timeZone: 'UTC', enabled: false }
  const servers = {
    target: serverIds.length === 0 ? ('all' as const) : ('servers' as const),
    serverIds: [...serverIds],
  }
  const body = { name: `policy-${world.next()}`, ...times, ...servers }
  return (await world.admin.call(createBackupPolicy, { body: body as never })).id
}

/** A server that is installed and waits for its node, which has no agent. */
async function absentServer(world: World): Promise<string> {
  const { admin, ids, panel } = world
  const name = `absent-${world.next()}`
  const template = await admin.call(createTemplate, { body: { name, startup: 'sleep 1000' } })
  const [nodeId, locationId] = [ids['nodeId'] ?? '', ids['locationId'] ?? '']
  const place = { templateId: template.id, nodeId, locationId, primaryPort: 46_000 + world.next() }
  const { id } = await admin.call(createServer, { body: { name, ...place, ...SIZE } as never })
  await panel.app.core.db.write((tx) => tx.q.updateTable('server').set({ installed: 1 }).where('id', '=', id).execute())
  return id
}

/** Valid requests about backup policies. */
export const POLICY_INPUTS: Readonly<Record<string, Make>> = {
  'backup_policies.cancel': async (world) => {
    const policyId = await policy(world, [await absentServer(world)])
    await world.admin.call(runBackupPolicy, { params: { policyId: policyId as never } })
    return { params: { policyId } }
  },
  'backup_policies.create': (world) => {
    const body = { name: `policy-${world.next()}`, cron: '0 4 * * *', enabled: false, target: 'all' }
    return { body, otherBody: { ...body, cron: '0 5 * * *' } }
  },
  'backup_policies.delete': async (world) => ({ params: { policyId: await policy(world) } }),
  'backup_policies.run': async (world) => ({
    params: { policyId: await policy(world, [await absentServer(world)]) },
  }),
  'backup_policies.update': async (world) => ({
    params: { policyId: await policy(world) },
    body: { name: `policy-${world.next()}` },
    otherBody: { name: `policy-${world.next()}`, keepCount: 3 },
  }),
}
