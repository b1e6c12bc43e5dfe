import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import * as api from '../../../../shared/api/database-hosts.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { Vault } from '../../../core/secrets.ts'
import { isForeignKeyViolation, type Tx } from '../../../db/db.ts'
import type { DatabaseWork } from './database-work.ts'
import type { DatabaseDeps } from './deps.ts'
import * as rows from './host-rows.ts'
import { hostPlace, opened } from './secrets.ts'

/** What the operations of database hosts need. */
export type HostDeps = DatabaseDeps & { readonly work: Pick<DatabaseWork, 'finishNow'> }

export const GONE = 'There is no database host with this id'
const PORTS = { mysql: 3306, postgresql: 5432 } as const

const operation = operationsOver<HostDeps>()

export const createDatabaseHost = operation(api.createDatabaseHost, async ({ tx, deps, userId }, { body }) => {
  const { clock, vault } = deps
  checkCertificates(body.caCertificate)
  checkIdentity(body)

  await refuseTakenName(tx, body.name)
  const id = newId('dbh', clock)
  const { password, port = PORTS[body.engine], caCertificate = null, maxDatabases = null, ...rest } = body
  const fields = { ...rest, port, caCertificate, maxDatabases }
  const sealed = vault.seal(hostPlace(id), password)
  await tx.q
    .insertInto('databaseHost')
    .values({ id, ...fields, password: sealed, createdAt: tx.now, updatedAt: tx.now })
    .execute()

  return {
    answer: await present(tx, id),
    audit: {
      resourceId: id,
      details: { ...fields, password: SECRET_MASK },
    },
    events: [{ type: 'database_host_created', data: { hostId: id, hostName: body.name, createdBy: userId } }],
  }
})

export const updateDatabaseHost = operation(
  api.updateDatabaseHost,
  async ({ tx, deps, userId, fail }, { params: { hostId }, body }) => {
    const { vault, work } = deps
    checkCertificates(body.caCertificate)

    const before = (await rows.findHostRow(tx.q, hostId)) ?? fail('ADMIN_DATABASE_HOST_NOT_FOUND', GONE)
    const { password, ...given } = body
    const fields = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
    checkIdentity({ ...before, ...fields })
    if (body.name !== undefined) await refuseTakenName(tx, body.name, hostId)
    const sealed = newPassword(vault, before, password)
    const details = {
      ...changes(before, fields),
      ...(sealed === undefined ? {} : { password: { before: SECRET_MASK, after: SECRET_MASK } }),
    }
    if (Object.keys(details).length === 0) return { answer: await present(tx, hostId) }
    await tx.q
      .updateTable('databaseHost')
      .set({ ...fields, ...(sealed === undefined ? {} : { password: sealed }), updatedAt: tx.now })
      .where('id', '=', hostId)
      .execute()
    // What waits for this host is tried again with the new facts.
    await work.finishNow(tx, hostId)

    const data = { hostId, hostName: body.name ?? before.name, updatedBy: userId }
    return {
      answer: await present(tx, hostId),
      audit: {
        resourceId: hostId,
        details,
      },
      events: [{ type: 'database_host_updated', data }],
    }
  },
)

export const deleteDatabaseHost = operation(
  api.deleteDatabaseHost,
  async ({ tx, userId, fail }, { params: { hostId }, query }) => {
    const { name, databaseCount, leftoverCount } =
      (await rows.findHost(tx.q, hostId)) ?? fail('ADMIN_DATABASE_HOST_NOT_FOUND', GONE)
    const abandoned = query.force === true ? await rows.forgetLeftovers(tx.q, hostId) : []
    await tx.q
      .deleteFrom('databaseHost')
      .where('id', '=', hostId)
      .execute()
      .catch((error: unknown) => {
        if (!isForeignKeyViolation(error)) throw error
        const why =
          databaseCount > 0
            ? `${name} has ${databaseCount} databases of servers; delete them first`
            : `${leftoverCount} databases are still to be removed from ${name}; force leaves them behind`
        return fail('ADMIN_DATABASE_HOST_IN_USE', why, { databaseCount, leftoverCount })
      })

    return {
      answer: null,
      audit: {
        resourceId: hostId,
        details: { name, ...(abandoned.length === 0 ? {} : { abandoned }) },
      },
      events: [{ type: 'database_host_deleted', data: { hostId, hostName: name, deletedBy: userId } }],
    }
  },
)

/** What cannot be read as certificates would be trusted by nobody, without a word about it. */
function checkCertificates(pem: string | null | undefined): void {
  if (pem === null || pem === undefined) return
  try {
    for (const part of pem.split(/(?<=-----END CERTIFICATE-----)\s*/)) if (part !== '') new X509Certificate(part)
  } catch {
    // OpenSSL's reason says nothing that helps whoever has sent the text.
    throw fieldError('body.caCertificate', 'must be certificates as PEM')
  }
}

/** The driver of MySQL compares certificates with names alone. */
function checkIdentity({ engine, tls, host }: Pick<rows.HostRow, 'engine' | 'tls' | 'host'>): void {
  if (engine !== 'mysql' || tls !== 'verify' || isIP(host) === 0) return
  throw fieldError('body.tls', 'cannot be verify with an address as host; use the name that the certificate is for')
}

/** The new password sealed; `undefined` when it stays. */
function newPassword(
  vault: Vault,
  { id, password: sealed }: rows.HostRow,
  given: Input<typeof api.updateDatabaseHost>['body']['password'],
): string | undefined {
  if (given === undefined || given === SECRET_MASK) return undefined
  try {
    if (opened(vault, hostPlace(id), sealed) === given) return undefined
  } catch (error) {
    // Without a key nothing can be sealed either; one that another key has sealed must be replaceable.
    if (error instanceof PanelError) throw error
  }
  return vault.seal(hostPlace(id), given)
}

/** Names that differ in case alone count as one. */
async function refuseTakenName(tx: Tx, name: string, besideId = ''): Promise<void> {
  if (!(await rows.hasNamesake(tx.q, name, besideId))) return
  throw new PanelError('ADMIN_DATABASE_HOST_NAME_TAKEN', `There is a database host named ${name} already`)
}

async function present(tx: Tx, id: string): Promise<api.DatabaseHost> {
  const host = await rows.findHost(tx.q, id)
  if (host === undefined) throw new Error(`database host ${id} is gone within the transaction that wrote it`)
  return host
}
