import { getDashboardActivity, getDashboardResources, getDashboardStats } from '../../../../shared/api/dashboard.ts'
import { getAdminHealth, getAdminStats, getDbStatus } from '../../../../shared/api/overview.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { visibleNodes, visibleServers } from '../../../access/permit.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { lastActivity } from './activity.ts'
import { openErrorCount, serverCounts, userCount } from './counts.ts'
import { readDbStatus } from './db-status.ts'
import { daemonFacts, type OverviewDeps } from './deps.ts'
import { readHealth } from './health.ts'
import { nodeCounts, nodesWithCores } from './node-counts.ts'
import { summedResources } from './resources.ts'

/** The overview: numbers, health and database for the administration, and each user's own first page. */
export function overviewRoutes(deps: OverviewDeps): Route[] {
  return [...adminRoutes(deps), ...dashboardRoutes(deps)]
}

function adminRoutes(deps: OverviewDeps): Route[] {
  const { db, integrity } = deps
  return [
    route(getAdminStats, async () => {
      const servers = await serverCounts(db.read, 'all')
      const nodes = await nodeCounts(db.read, deps, 'all')
      return {
        users: await userCount(db.read),
        servers: servers.all,
        activeServers: servers.byStatus.running ?? 0,
        serversByStatus: servers.byStatus,
        nodes: nodes.total,
        onlineNodes: nodes.online,
        openErrors: await openErrorCount(db.read),
        activeAlerts: (await deps.alerts(db.read)).open,
        ...daemonFacts(deps),
      }
    }),
    route(getAdminHealth, () => readHealth(deps)),
    route(getDbStatus, ({ query }) => {
      if (query.check === true) integrity.begin()
      return readDbStatus(deps)
    }),
  ]
}

function dashboardRoutes(deps: OverviewDeps): Route[] {
  const { db, clock } = deps
  const at = () => ({ q: db.read, now: now(clock) })
  return [
    route(getDashboardStats, async (_, context) => {
      const caller = callerOf(context)
      const servers = await serverCounts(db.read, await visibleServers(at(), caller))
      const nodes = await nodeCounts(db.read, deps, await visibleNodes(at(), caller))
      const alerts = grants(caller.permissions, 'alert.read')
        ? await deps.alerts(db.read)
        : { open: 0, unacknowledged: 0 }
      return {
        servers: servers.all,
        serversOnline: servers.byStatus.running ?? 0,
        nodes: nodes.total,
        nodesOnline: nodes.online,
        alerts: alerts.open,
        alertsUnacknowledged: alerts.unacknowledged,
      }
    }),
    route(getDashboardActivity, async ({ query }, context) => {
      const caller = callerOf(context)
      const { userId, credentialId, scope } = caller
      // A key that may do less than its user is not shown what they have done beside it.
      const own = { userId, apiKeyId: scope === null ? null : credentialId }
      const of = grants(caller.permissions, 'admin.read') ? undefined : own
      return lastActivity(db.read, { of, limit: query.limit, nowMs: clock.nowMs() })
    }),
    route(getDashboardResources, async (_, context) => {
      const nodes = await nodesWithCores(db.read, await visibleNodes(at(), callerOf(context)))
      return summedResources(
        nodes.flatMap(({ id, cores }) => {
          const usage = deps.isOnline(id) ? deps.nodeUsage.get(id) : undefined
          return usage === undefined ? [] : [{ usage, cores }]
        }),
      )
    }),
  ]
}
