import * as api from '../../../shared/api/dashboard.ts'
import type { Action } from '../../kit/command.ts'
import { column, type View } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'

interface Dashboard {
  readonly stats: api.DashboardStats
  readonly resources: api.DashboardResources
  readonly activity: readonly api.DashboardActivity[]
}

const SUMMARY: View<Dashboard> = {
  id: () => 'dashboard',
  name: () => 'dashboard',
  columns: [
    column('SERVERS', ({ stats }) => `${stats.serversOnline} of ${stats.servers} running`),
    column('NODES', ({ stats }) => `${stats.nodesOnline} of ${stats.nodes} online`),
    column('ALERTS', ({ stats }) => stats.alerts),
    column('UNACKNOWLEDGED', ({ stats }) => stats.alertsUnacknowledged),
    column('CPU', ({ resources }) => share(resources.cpuUtilization, resources)),
    column('MEMORY', ({ resources }) => share(resources.memoryUtilization, resources)),
    column('RECEIVED', ({ resources }) => rate(resources.networkRxBytesPerSecond)),
    column('SENT', ({ resources }) => rate(resources.networkTxBytesPerSecond)),
  ],
}

const DONE: View<api.DashboardActivity> = {
  id: (row) => row.id,
  name: (row) => row.title,
  columns: [
    column('TIME', (row) => ({ time: row.timestamp })),
    column('WHAT', (row) => row.title),
    column('WHO AND TO WHAT', (row) => row.detail),
  ],
}

/** `panel dashboard`: the three parts together, for people as two tables. */
export const showDashboard: Action = async (run) => {
  const limit = run.args.integer('limit', 1)
  const query = limit === undefined ? {} : { query: { limit } }
  const [stats, resources, activity] = await Promise.all([
    call(run, api.getDashboardStats, { params: {} }),
    call(run, api.getDashboardResources, { params: {} }),
    call(run, api.getDashboardActivity, { params: {}, ...query }),
  ])
  await run.out.item({ stats, resources, activity }, SUMMARY)
  if (run.out.machine || activity.length === 0) return
  await run.out.text('\n')
  await run.out.list(activity, DONE)
}

function share(percent: number, { nodesReporting }: api.DashboardResources): string | null {
  return nodesReporting === 0 ? null : `${percent} %`
}

function rate(bytes: number | null): string | null {
  return bytes === null ? null : `${Math.round(bytes / 102.4) / 10} KiB/s`
}
