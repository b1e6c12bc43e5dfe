import {
  createAllocations,
  deleteAllocation,
  listAllocations,
  updateAllocation,
} from '../../src/shared/api/allocations.ts'
import { createApiKey, deleteApiKey, updateApiKey } from '../../src/shared/api/api-keys.ts'
import { createLocation, deleteLocation, updateLocation } from '../../src/shared/api/locations.ts'
import { createNode, createNodeKey, deleteNode, updateNode } from '../../src/shared/api/nodes.ts'
import { powerServer } from '../../src/shared/api/power.ts'
import { createServer, deleteServer, patchServer, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate, deleteTemplate, updateTemplate } from '../../src/shared/api/templates.ts'
import { createUser } from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import type { LocationId, NodeId } from '../../src/shared/kernel/ids.ts'
import type { Outcome, WriteLedger } from './write-ledger.ts'

/** What a round of writes is told. */
export interface Round {
  readonly ledger: WriteLedger
  /** Running servers that take power orders. */
  readonly games: readonly Server[]
  /** Unlike that of every other round. */
  readonly name: string
}

/** Thrown when a write got no answer: what it wrote to is left as it is. */
class NoAnswer extends Error {}

/** Some twenty writes of all kinds, one after the other. A write without an answer ends the round. */
export async function writeRound(round: Round): Promise<void> {
  try {
    const locationId = await made(round, 'location', (client) =>
      client.call(createLocation, { body: { name: round.name } }),
    )
    await power(round)
    await write(round, (client) =>
      client.call(updateLocation, { params: { locationId }, body: { description: `of ${round.name}` } }),
    )
    await account(round)
    await place(round, locationId)
    await power(round)
    await removed(round, 'location', locationId, (client) => client.call(deleteLocation, { params: { locationId } }))
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error
  }
}

async function account(round: Round): Promise<void> {
  const person = { email: `${round.name}@example.org`, username: round.name, password: 'Correct horse 9 battery!' }
  await made(round, 'user', (client) => client.call(createUser, { body: person }))
  const keyId = await made(round, 'api_key', (client) => client.call(createApiKey, { body: { name: round.name } }))
  await write(round, (client) =>
    client.call(updateApiKey, { params: { keyId }, body: { name: `${round.name} again` } }),
  )
  await removed(round, 'api_key', keyId, (client) => client.call(deleteApiKey, { params: { keyId } }))
}

/** A node without an agent, with addresses and a server. */
async function place(round: Round, locationId: LocationId): Promise<void> {
  const { name } = round
  const nodeId = await made(round, 'node', (client) =>
    client.call(createNode, { body: { name, locationId, maxMemoryMb: 4096, maxCpuCores: 8 } }),
  )
  await write(round, (client) => client.call(updateNode, { params: { nodeId }, body: { description: name } }))
  await write(round, (client) => client.call(createNodeKey, { params: { nodeId }, body: {} }))
  const templateId = await made(round, 'template', (client) =>
    client.call(createTemplate, { body: { name, startup: 'sleep 1000' } }),
  )
  await write(round, (client) =>
    client.call(updateTemplate, { params: { templateId }, body: { description: `of ${name}` } }),
  )
  const size = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
  const serverId = await made(round, 'server', (client) =>
    client.call(createServer, { body: { name, templateId, nodeId, locationId, primaryPort: 20_000, ...size } }),
  )
  await write(round, (client) =>
    client.call(patchServer, { params: { serverId }, body: { description: `of ${name}` } }),
  )
  await addresses(round, nodeId)
  await removed(round, 'server', serverId, (client) =>
    client.call(deleteServer, { params: { serverId }, query: { force: 'true' } }),
  )
  await removed(round, 'template', templateId, (client) => client.call(deleteTemplate, { params: { templateId } }))
  await removed(round, 'node', nodeId, (client) => client.call(deleteNode, { params: { nodeId } }))
}

async function addresses(round: Round, nodeId: NodeId): Promise<void> {
  await write(round, (client) =>
    client.call(createAllocations, { params: { nodeId }, body: { ip: '127.0.0.1', ports: '30000-30004' } }),
  )
  const all = answer(
    await round.ledger.send((client) => client.call(listAllocations, { params: { nodeId } }), 'a-read'),
  )
  const allocationId = all.find(({ port }) => port === 30_000)?.id
  if (allocationId === undefined) throw new Error('answered addresses are not there')
  const params = { nodeId, allocationId }
  await write(round, (client) => client.call(updateAllocation, { params, body: { notes: round.name } }))
  await write(round, (client) => client.call(deleteAllocation, { params }))
}

/** An order to a real game. While its node is away, and while another is under way, it may be refused. */
async function power({ ledger, games }: Round): Promise<void> {
  for (const { id: serverId } of games) {
    const body = { action: 'restart' as const }
    const outcome = await ledger.write((client) => client.call(powerServer, { params: { serverId }, body }))
    if (outcome.is === 'unknown') throw new NoAnswer()
  }
}

async function write<T>({ ledger }: Round, send: (client: Client) => Promise<T>): Promise<T> {
  return answer(await ledger.write(send))
}

function answer<T>(outcome: Outcome<T>): T {
  if (outcome.is === 'answered') return outcome.data
  if (outcome.is === 'unknown') throw new NoAnswer()
  throw new Error('none of these is to be refused', { cause: outcome.error })
}

async function made<I extends string>(
  round: Round,
  table: string,
  send: (client: Client) => Promise<{ id: I }>,
): Promise<I> {
  const { id } = await write(round, send)
  round.ledger.created(table, id)
  return id
}

async function removed(round: Round, table: string, id: string, send: (client: Client) => Promise<unknown>) {
  round.ledger.deleting(id)
  await write(round, send)
  round.ledger.deleted(table, id)
}
