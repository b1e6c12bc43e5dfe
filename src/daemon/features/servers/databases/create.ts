import type { z } from 'zod'
import { createServerDatabase } from '../../../../shared/api/databases.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type Principal, recordChange, userIdOf } from '../../../access/operation.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow } from '../servers/rows.ts'
import { countOfServer, forget, move } from './database-rows.ts'
import type { DatabaseWork } from './database-work.ts'
import type { DatabaseDeps } from './deps.ts'
import type { Target } from './dialect.ts'
import { withHost } from './host-connection.ts'
import { HostFailure } from './host-failure.ts'
import { countOnHost, findHostRow, type HostRow, roomiestHost } from './host-rows.ts'
import { addressOf, databasePlace, newName, newPassword } from './secrets.ts'
import { type FinishDeps, finish } from './unfinished-work.ts'

/** A creation as it is asked for. */
export interface Creation {
  readonly serverId: string
  readonly body: z.output<typeof createServerDatabase.body>
  readonly principal: Principal
  /** Known before, so that whoever was cut off finds what it has made. */
  readonly id?: string
  /** Its server moves in from elsewhere: it is suspended meanwhile, and has what it had there. */
  readonly isMovingIn?: boolean
}

interface Plan extends Target {
  readonly id: string
  readonly host: HostRow
}

/**
 * Makes a database on its host: first a row says what is wanted, then that the host is about to hear of it, then it is made,
 * then the row says so. Whatever breaks this off leaves a row that says what has to be undone. Answers the id.
 */
export function createDatabase(
  deps: DatabaseDeps & { readonly work: DatabaseWork },
  creation: Creation,
): Promise<string> {
  const id = creation.id ?? newId('db', deps.clock)
  return deps.work.hold(id, async () => {
    const password = newPassword()
    const plan = await deps.db.write(async (tx) => {
      const made = await planned(deps, tx, { ...creation, id, password })
      await deps.work.finishAt(tx, id, tx.now)
      return made
    })
    try {
      const address = addressOf(deps.vault, plan.host)
      await withHost({ clock: deps.clock, address }, async (host) => {
        if (await host.exists(plan)) throw new HostFailure('exists', EXISTS, { undone: true })
        await deps.db.write((tx) => goOn(tx, id))
        await host.create(plan, password)
      })
      await deps.db.write(async (tx) => {
        await made(deps, tx, { plan, creation })
        await deps.work.finished(tx, id)
      })
      return id
    } catch (error) {
      await giveUp(deps, id, error)
      throw asRefusal(error, plan.host)
    }
  })
}

const EXISTS = 'it has a database of this name already'

/** Checks that the server may have one more and writes the creation; of two that would be one too many, one is refused. */
async function planned(
  { vault }: DatabaseDeps,
  tx: Tx,
  creation: Creation & { readonly id: string; readonly password: string },
): Promise<Plan> {
  const { serverId, body, id } = creation
  const server = await findServerRow(tx.q, serverId)
  if (server === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  if (creation.isMovingIn !== true) refuseSuspended(server)
  if (server.deletingAt !== null) throw beingDeleted()
  const limit = server.databaseAllocation
  if (limit === 0 && creation.isMovingIn !== true)
    throw new PanelError('DATABASE_DISABLED', 'This server may have no databases')
  const host = await hostFor(tx, body)
  const count = await countOfServer(tx.q, serverId)
  if (count >= limit && creation.isMovingIn !== true) {
    const sentence = `This server has ${count} databases, and may have ${limit}`
    throw new PanelError('DATABASE_LIMIT_REACHED', sentence, { meta: { scope: 'server', limit, count } })
  }
  const target = { name: body.name ?? newName(), username: newName(), remote: body.remote }
  await tx.q
    .insertInto('serverDatabase')
    .values({
      id,
      hostId: host.id,
      serverId,
      ...target,
      password: vault.seal(databasePlace(id), creation.password),
      pendingPassword: null,
      state: 'planned',
      requestedBy: userIdOf(creation.principal),
      lastError: null,
      createdAt: tx.now,
      updatedAt: tx.now,
    })
    .execute()
    .catch((error: unknown) => {
      if (uniqueViolation(error) === undefined) throw error
      throw nameTaken(host.name)
    })
  return { id, host, ...target }
}

async function hostFor(tx: Tx, { hostId, remote }: Creation['body']): Promise<HostRow> {
  const host = hostId === undefined ? await roomiestHost(tx.q) : await findHostRow(tx.q, hostId)
  if (host === undefined) {
    const sentence = hostId === undefined ? 'There is no database host that has room' : 'There is no such database host'
    throw new PanelError('ADMIN_DATABASE_HOST_NOT_FOUND', sentence)
  }
  if (host.engine === 'postgresql' && remote !== '%') {
    throw fieldError('body.remote', 'must be % on PostgreSQL, whose pg_hba.conf says from where users connect')
  }
  const count = await countOnHost(tx.q, host.id)
  if (host.maxDatabases !== null && count >= host.maxDatabases) {
    const sentence = `${host.name} takes ${host.maxDatabases} databases and has ${count}; choose another host`
    throw new PanelError('DATABASE_LIMIT_REACHED', sentence, {
      meta: { scope: 'host', limit: host.maxDatabases, count },
    })
  }
  return host
}

/** From here on something of it may stand on the host. */
async function goOn(tx: Tx, id: string): Promise<void> {
  if (!(await move(tx, id, ['planned'], { state: 'creating' }))) throw beingDeleted()
}

async function made(deps: DatabaseDeps, tx: Tx, { plan, creation }: { plan: Plan; creation: Creation }): Promise<void> {
  const { serverId, principal } = creation
  const { id, name, host, remote } = plan
  if (!(await move(tx, id, ['creating'], { state: 'ready' }))) throw beingDeleted()
  const details = { serverId, name, hostId: host.id, hostName: host.name, remote }
  const data = { databaseId: id, databaseName: name, createdBy: userIdOf(principal) }
  await recordChange(
    tx,
    { deps, principal, endpoint: createServerDatabase },
    { audit: { resourceId: id, details }, events: [{ type: 'database_created', serverId, data }] },
  )
}

/** Forgets what the host has not heard of and undoes the rest; what cannot be undone now is undone later. */
async function giveUp(deps: FinishDeps, id: string, error: unknown): Promise<void> {
  const untouched = error instanceof HostFailure && error.reason === 'exists'
  await deps.db.write(async (tx) => {
    if (await forget(tx, id, untouched ? ['planned', 'creating'] : ['planned'])) return deps.work.finished(tx, id)
    await move(tx, id, ['creating'], { state: 'undoing' })
  })
  await finish(deps, id).catch((failure: unknown) => {
    if (!(failure instanceof HostFailure)) throw failure // the row says it, and its job goes on with it
  })
}

function asRefusal(error: unknown, host: HostRow): unknown {
  if (!(error instanceof HostFailure)) return error
  if (error.reason === 'exists') return nameTaken(host.name)
  return new PanelError('DATABASE_PROVISION_FAILED', `The database was not made on ${host.name}: ${error.message}`, {
    meta: { reason: error.reason, hostId: host.id },
  })
}

function nameTaken(hostName: string): PanelError {
  return new PanelError('CONFLICT', `${hostName} has a database of this name already; choose another name`)
}

function beingDeleted(): PanelError {
  return new PanelError('SERVER_INVALID_STATE', 'This server is being deleted', {
    meta: { currentStatus: 'deleting', allowed: [] },
  })
}
