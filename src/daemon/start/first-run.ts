import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { cpus, hostname, totalmem } from 'node:os'
import { join } from 'node:path'
import { NewServer } from '../../shared/api/servers.ts'
import type { LocationId } from '../../shared/kernel/ids.ts'
import { PANEL, perform } from '../access/operation.ts'
import type { App } from '../app.ts'
import type { Tx } from '../db/db.ts'
import { createApiKeyRow, isForSocket, localApiKey } from '../features/accounts/auth/api-key-rows.ts'
import { createFirstAdmin, LOCAL_ADMIN } from '../features/accounts/auth/first-admin.ts'
import * as starter from '../features/catalog/templates/starter.ts'
import { createLocation } from '../features/fleet/locations/operations.ts'
import { createNode } from '../features/fleet/nodes/operations.ts'
import { createServer as createGameServer } from '../features/servers/servers/operations.ts'

/** The name of the node and context that `panel up` makes. */
export const LOCAL = 'local'

/** The key that encrypts stored secrets, made at the first run (0600). */
export async function credentialKey(dataDir: string): Promise<string> {
  return readOrMake(join(dataDir, 'credential.key'), () => randomBytes(32).toString('base64'))
}

/** What the first run leaves, and every later one finds. */
export interface LocalNode {
  readonly nodeId: string
  readonly nodeKey: string
  /** The API key of the context `local`. */
  readonly token: string
  readonly first: boolean
}

/**
 * Makes everything that a machine needs to run games at once, in one transaction: administrator, API key, location, this
 * machine as a node, and the demo server, which needs the starter templates. Later runs make sure that the node and the key are
 * there. The node's key is a fresh one each time and never leaves the process.
 */
export async function ensureLocal(app: App, dataDir: string, options: { readonly demo: boolean }): Promise<LocalNode> {
  const { core, keys } = app
  const kept = await keptToken(dataDir)
  const resolved = kept === undefined ? undefined : await core.credentials.resolve(kept)
  const keyId = resolved === undefined || typeof resolved === 'string' ? undefined : resolved.credentialId
  const port = await freePort(25_600)
  const made = await core.db.write(async (tx) => {
    const first = await app.isSetupRequired()
    const userId = first
      ? (await createFirstAdmin(tx, core, { ...LOCAL_ADMIN, origin: null })).userId
      : await someAdmin(tx)
    const valid = keyId !== undefined && (await isForSocket(tx.q, keyId))
    // One from before the socket has gone over a port, whoever listened there.
    if (keyId !== undefined && !valid) await tx.q.deleteFrom('apiKey').where('id', '=', keyId).execute()
    const token =
      valid && kept !== undefined ? kept : (await createApiKeyRow(tx, core.clock, localApiKey(userId))).token
    const node = await ensureNode(tx, app)
    const nodeKey = await keys.issue(tx, node.id)
    if (first && options.demo) await createDemo(tx, app, { userId, node, port })
    tx.onCommit(() => core.credentials.changed())
    return { first, token, nodeId: node.id, nodeKey }
  })
  if (made.token !== kept) await writeFile(tokenFile(dataDir), `${made.token}\n`, { mode: 0o600 })
  return made
}

/** The API key that an earlier run has left in the data folder. */
export function keptToken(dataDir: string): Promise<string | undefined> {
  return readKept(tokenFile(dataDir))
}

function tokenFile(dataDir: string): string {
  return join(dataDir, 'local.key')
}

/** The templates that come with the program, each once: one that was edited or deleted stays so. */
export async function addStarters({ core }: App): Promise<void> {
  await starter.addStarters(core, starter.starterFolder())
}

/** This machine as a node, with a fresh key, for a daemon that embeds the agent. */
export function ensureLocalNode(app: App): Promise<{ nodeId: string; nodeKey: string }> {
  return app.core.db.write(async (tx) => {
    const { id } = await ensureNode(tx, app)
    return { nodeId: id, nodeKey: await app.keys.issue(tx, id) }
  })
}

async function ensureNode(tx: Tx, app: App): Promise<{ id: string; locationId: string }> {
  const present = await tx.q
    .selectFrom('node')
    .select(['id', 'locationId'])
    .where('name', '=', LOCAL)
    .executeTakeFirst()
  if (present !== undefined) return present
  const { core, keys } = app
  const deps = { ...core, keys, isOnline: app.serverDeps.isOnline }
  const locationId = (await localLocation(tx)) ?? (await makeLocation(tx, app))
  const body = {
    name: LOCAL,
    description: 'This machine',
    locationId: locationId as LocationId, // of a row
    hostname: hostname(),
    publicAddress: '127.0.0.1',
    defaultIp: '127.0.0.1',
    maxMemoryMb: Math.floor(totalmem() / 1_048_576),
    maxCpuCores: cpus().length,
    memoryOverallocatePercent: 0,
    cpuOverallocatePercent: -1,
  }
  const node = await perform(tx, createNode, { deps, principal: PANEL, input: { params: {}, query: undefined, body } })
  return { id: node.id, locationId }
}

async function localLocation(tx: Tx): Promise<string | undefined> {
  return (await tx.q.selectFrom('location').select('id').where('name', '=', LOCAL).executeTakeFirst())?.id
}

async function makeLocation(tx: Tx, { core }: App): Promise<string> {
  const input = { params: {}, query: undefined, body: { name: LOCAL, description: 'This machine' } }
  return (await perform(tx, createLocation, { deps: core, principal: PANEL, input })).id
}

async function createDemo(
  tx: Tx,
  app: App,
  { userId, node, port }: { userId: string; node: { id: string; locationId: string }; port: number },
): Promise<void> {
  const template = await tx.q
    .selectFrom('template')
    .select('id')
    .where('name', '=', 'Demo game')
    .executeTakeFirstOrThrow()
  const body = NewServer.parse({
    name: 'demo',
    description: 'A small game to look around with',
    templateId: template.id,
    nodeId: node.id,
    locationId: node.locationId,
    ownerId: userId,
    allocatedMemoryMb: 96,
    allocatedCpuCores: 0.5,
    allocatedDiskMb: 256,
    primaryPort: port,
    start: true,
  })
  const input = { params: {}, query: undefined, body }
  await perform(tx, createGameServer, { deps: app.serverDeps, principal: PANEL, input })
}

/** Whoever may do everything: the key of this machine's owner belongs to that account. */
async function someAdmin(tx: Tx): Promise<string> {
  const rows = await tx.q
    .selectFrom('userRole')
    .innerJoin('role', 'role.id', 'userRole.roleId')
    .select(['userRole.userId', 'role.permissions'])
    .orderBy('userRole.userId')
    .execute()
  const admin = rows.find((row) => row.permissions.includes('"*"'))
  if (admin === undefined)
    throw new Error('no account of this installation may do everything; sign in and give one the role')
  return admin.userId
}

async function readKept(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

async function readOrMake(file: string, make: () => string): Promise<string> {
  const kept = await readKept(file)
  if (kept !== undefined) return kept
  const made = make()
  await writeFile(file, `${made}\n`, { mode: 0o600, flag: 'wx' })
  return made
}

/** The first port from `start` on that nobody listens on at this machine. */
export async function freePort(start: number, host = '127.0.0.1'): Promise<number> {
  for (let port = start; port < start + 500; port++) {
    const free = await new Promise<boolean>((resolve) => {
      const probe = createServer()
      probe.once('error', () => resolve(false))
      probe.listen({ port, host, exclusive: true }, () => probe.close(() => resolve(true)))
    })
    if (free) return port
  }
  throw new Error(`no port between ${start} and ${start + 499} is free`)
}
