import { listAdminServers } from '../../../../shared/api/admin-servers.ts'
import {
  installServer,
  killServer,
  powerServer,
  reinstallServer,
  restartServer,
  startServer,
  stopServer,
} from '../../../../shared/api/power.ts'
import {
  createServer as createServerEndpoint,
  deleteServer,
  getServer,
  getServerStats,
  listServers,
  patchServer,
  updateServer,
} from '../../../../shared/api/servers.ts'
import {
  suspendServer as suspendEndpoint,
  unsuspendServer as unsuspendEndpoint,
} from '../../../../shared/api/suspension.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { PowerAction } from '../../../../shared/kernel/server-life.ts'
import { now } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import { visibleServers } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import type { Queries } from '../../../db/db.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { bulkRoutes } from './bulk-routes.ts'
import { createServer } from './create.ts'
import { editServer } from './edit.ts'
import { type Accepted, accept, refuseSuspended } from './orders.ts'
import { orphanRoutes } from './orphan-routes.ts'
import type { OrphanDeps } from './orphans.ts'
import { type RemovalDeps, removeServer } from './remove.ts'
import { findServerRow, listServerRows, ownersOf, type ServerRow } from './rows.ts'
import { suspendServer, unsuspendServer } from './suspend.ts'
import { figuresOf, statusOf, toServer, type ViewFacts, viewerOf } from './view.ts'

/** What the routes of servers need. */
export type ServerDeps = RemovalDeps & OrphanDeps & { readonly facts: ViewFacts }

/** Servers: list, create, show, edit, delete, suspend, orders, figures. */
export function serverRoutes(deps: ServerDeps): Route[] {
  const { db, facts } = deps
  const here = (): At => ({ q: db.read, now: now(deps.clock) })
  const shown = async (at: At, caller: Caller, row: ServerRow) =>
    toServer(row, await viewerOf(at, caller, [row]), facts)
  const edit = async (
    { params, body }: { params: { serverId: string }; body: Parameters<typeof editServer>[2]['patch'] },
    context: Pick<Context, 'caller' | 'actor'>,
  ) => {
    const caller = callerOf(context)
    return await db.write(async (tx) => {
      await editServer(tx, deps, { serverId: params.serverId, patch: body, caller, actor: context.actor })
      return shown(tx, caller, await present(tx.q, params.serverId))
    })
  }
  return [
    route(listServers, async ({ query }, context) => {
      const caller = callerOf(context)
      const at = here()
      const { rows, total } = await listServerRows(db.read, await visibleServers(at, caller), query)
      const viewer = await viewerOf(at, caller, rows)
      return { items: rows.map((row) => toServer(row, viewer, facts)), total }
    }),
    route(listAdminServers, async ({ query }, context) => {
      const { rows, total } = await listServerRows(db.read, 'all', { ...query, nodesToo: true })
      const viewer = await viewerOf(here(), callerOf(context), rows)
      const owners = await ownersOf(db.read, rows)
      const items = rows.map((row) => ({ ...toServer(row, viewer, facts), owner: owners.get(row.ownerId) ?? null }))
      return { items, total }
    }),
    route(createServerEndpoint, async ({ body }, context) => {
      const caller = callerOf(context)
      return await db.write(async (tx) => {
        const { id, commandId } = await createServer(tx, deps, { body, caller, actor: context.actor })
        return { ...(await shown(tx, caller, await present(tx.q, id))), commandId }
      })
    }),
    route(getServer, async ({ params }, context) =>
      shown(here(), callerOf(context), await present(db.read, params.serverId)),
    ),
    route(updateServer, edit),
    route(patchServer, edit),
    route(deleteServer, async ({ params, query }, { actor }) => {
      const force = query.force === 'true'
      await removeServer(deps, { serverId: params.serverId, force, keepFiles: query.keepFiles === 'true', actor })
      return null
    }),
    route(getServerStats, async ({ params }) => {
      const row = facts.observed(await present(db.read, params.serverId))
      refuseSuspended(row)
      const { timestamp, ...figures } = figuresOf(row, facts)
      return {
        ...figures,
        memoryAllocatedMb: row.memoryMb,
        memoryPercentage:
          figures.memoryUsageMb === null ? null : Math.round((figures.memoryUsageMb / row.memoryMb) * 1000) / 10,
        timestamp,
        server: { id: row.id, name: row.name, status: statusOf(row) },
      }
    }),
    ...suspensionRoutes(deps, shown),
    ...orderRoutes(deps),
    ...orphanRoutes(deps),
    ...bulkRoutes(deps),
  ]
}

type Shown = (at: At, caller: Caller, row: ServerRow) => Promise<ReturnType<typeof toServer>>

function suspensionRoutes(deps: ServerDeps, shown: Shown): Route[] {
  return [
    route(suspendEndpoint, ({ params: { serverId }, body }, context) =>
      deps.db.write(async (tx) => {
        const { reason = null, stopServer } = body
        await suspendServer(tx, deps, { serverId, reason, stopServer, actor: context.actor })
        return shown(tx, callerOf(context), await present(tx.q, serverId))
      }),
    ),
    route(unsuspendEndpoint, ({ params: { serverId } }, context) =>
      deps.db.write(async (tx) => {
        await unsuspendServer(tx, deps, { serverId, actor: context.actor })
        return shown(tx, callerOf(context), await present(tx.q, serverId))
      }),
    ),
  ]
}

function orderRoutes(deps: ServerDeps): Route[] {
  const power = (
    action: PowerAction,
    { params, body }: { params: { serverId: string }; body: { graceSeconds?: number | undefined } },
    { actor }: Pick<Context, 'actor'>,
    auditAction = `server.${action}`,
  ): Promise<Accepted> => {
    const args = body.graceSeconds === undefined ? {} : { timeoutMs: body.graceSeconds * 1000 }
    return accept(deps, { serverId: params.serverId, action, args, auditAction, actor })
  }
  return [
    route(powerServer, (input, context) => power(input.body.action, input, context, 'server.power')),
    route(startServer, (input, context) => power('start', input, context)),
    route(stopServer, (input, context) => power('stop', input, context)),
    route(restartServer, (input, context) => power('restart', input, context)),
    route(killServer, (input, context) => power('kill', input, context)),
    route(installServer, ({ params, body }, { actor }) => {
      const args = { wipe: false, thenStart: body.start }
      return accept(deps, { serverId: params.serverId, action: 'install', args, auditAction: 'server.install', actor })
    }),
    route(reinstallServer, ({ params, body }, { actor }) => {
      const args = { wipe: true, thenStart: body.start }
      return accept(deps, {
        serverId: params.serverId,
        action: 'reinstall',
        args,
        auditAction: 'server.reinstall',
        actor,
      })
    }),
  ]
}

async function present(q: Queries, id: string): Promise<ServerRow> {
  const row = await findServerRow(q, id)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  return row
}
