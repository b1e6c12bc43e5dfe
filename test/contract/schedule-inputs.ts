import { createTask, executeTask } from '../../src/shared/api/schedules.ts'
import type { ServerId } from '../../src/shared/kernel/ids.ts'
import type { Make } from './inputs.ts'
import { freshServer, type World } from './world.ts'

/** A schedule that waits so long. */
async function schedule(world: World, { serverId, seconds = 1 }: { serverId: ServerId; seconds?: number }) {
  const body = { name: `name-${world.next()}`, schedule: '@yearly', action: 'wait', payload: { seconds } } as const
  const { id: taskId } = await world.admin.call(createTask, { params: { serverId }, body })
  return { serverId, taskId }
}

const usual = ({ ids }: World) => ({ serverId: (ids['serverId'] ?? '') as ServerId }) // written by buildWorld

/** Valid requests of the schedules of servers. */
export const SCHEDULE_INPUTS: Readonly<Record<string, Make>> = {
  'tasks.abort': async (world) => {
    const { id: serverId } = await freshServer(world, false)
    const params = await schedule(world, { serverId, seconds: 600 })
    await world.admin.call(executeTask, { params })
    return { params }
  },
  'tasks.create': (world) => ({
    params: usual(world),
    body: { name: 'save', schedule: '0 4 * * *', action: 'command', payload: { command: 'save-all' } },
    otherBody: { name: 'save', schedule: '0 4 * * *', steps: [{ action: 'restart' }] },
  }),
  'tasks.delete': async (world) => ({ params: await schedule(world, usual(world)) }),
  'tasks.execute': async (world) => {
    const { id: serverId } = await freshServer(world, false)
    return { params: await schedule(world, { serverId }) }
  },
  'tasks.preview': (world) => ({ params: usual(world), query: { schedule: '30 2 * * sun' } }),
  'tasks.update': async (world) => ({
    params: await schedule(world, usual(world)),
    body: {
      ...{ name: 'weekly', description: 'at night', schedule: '@weekly', timezone: 'Europe/Berlin' },
      ...{ enabled: false, onlyWhenOnline: true, missed: 'skip', steps: [{ action: 'start' }] },
    },
  }),
}
