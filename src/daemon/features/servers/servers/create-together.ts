import { createServer } from '../../../../shared/api/servers.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Principal, perform, workOf } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { ALONE, gather, type Settled } from '../../../db/gather.ts'
import { isStorageFailure } from '../../../db/sqlite/failures.ts'
import { ClaimsTogether, NotTogether } from '../../fleet/nodes/allocation-claims.ts'
import { PortHolds } from '../../fleet/nodes/port-holds.ts'
import { roundedCores } from '../../fleet/nodes/rows.ts'
import {
  type CreationWork,
  type NewServerPlan,
  type NodeForNew,
  namedPort,
  nodesForNew,
  ownerOf,
  planServer,
  templateOf,
} from './create.ts'
import { namesakesOf } from './names.ts'
import * as operations from './operations.ts'
import { addCommands } from './orders.ts'
import { namedPorts, readHoldsFor, requestsOf } from './ports.ts'
import { findServerRows, insertServerRows } from './rows.ts'
import { toServer, viewerOf } from './view.ts'

/** A creation with who asks for it. */
interface GivenCreation {
  readonly principal: Principal
  readonly input: Input<typeof createServer>
}

type Created = Answer<typeof createServer>
type Result = Settled<Created> | typeof ALONE

/** Creates servers as {@link operations.createServer} does; those that are asked for together are written together. */
export function creationDesk(deps: operations.ServerDeps): (given: GivenCreation) => Promise<Created> {
  return gather<GivenCreation, Created>(deps.db, async (tx, given) => {
    const [only] = given
    if (given.length > 1 || only === undefined) return await createAll(tx, deps, given)
    return [{ value: await perform(tx, operations.createServer, { deps, ...only }) }]
  })
}

/** A creation on its way: what it is checked against is read for all of them. */
interface Candidate {
  readonly given: GivenCreation
  readonly work: CreationWork & { readonly deps: operations.ServerDeps }
  readonly ownerId: string
  readonly template: Awaited<ReturnType<typeof templateOf>>
}

/**
 * Each is made or refused by itself, in this order; nothing is written before all have been checked. One that needs more than an address
 * and a port (an allocation by its id, an address of a pool) goes alone, behind them.
 */
async function createAll(tx: Tx, deps: operations.ServerDeps, all: readonly GivenCreation[]): Promise<Result[]> {
  const settled = new Map<GivenCreation, Result>()
  const candidates: Candidate[] = []
  for (const given of all) {
    await settle(settled, given, async () => {
      const work = await workOf(tx, { endpoint: createServer, deps, principal: given.principal })
      const { body } = given.input
      const ownerId = await ownerOf(work, body)
      candidates.push({ given, work, ownerId, template: await templateOf(tx, body.templateId) })
    })
  }
  const found = await readSurroundings(tx, candidates)
  const together = new ClaimsTogether()
  const plans = new Map<Candidate, NewServerPlan>()
  for (const [place, candidate] of candidates.entries()) {
    await settle(settled, candidate.given, async () => {
      plans.set(candidate, await planOne(candidate, { found, place, together }))
    })
  }
  for (const [candidate, answer] of await write(tx, { plans, together })) {
    settled.set(candidate.given, { value: answer })
  }
  return all.map((given) => settled.get(given) ?? { error: new Error('a creation was left out') })
}

/** Keeps a refusal for whom it concerns. */
async function settle(
  settled: Map<GivenCreation, Result>,
  given: GivenCreation,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (error instanceof NotTogether) return void settled.set(given, ALONE)
    if (!(error instanceof PanelError) || isStorageFailure(error)) throw error
    settled.set(given, { error })
  }
}

/** What there is, and what of it the creations before have taken. */
interface Found {
  readonly places: Map<string, { node: NodeForNew; readonly holds: PortHolds }>
  /** By candidate. */
  readonly namesakes: readonly (string | undefined)[]
  /** By owner and name. */
  readonly named: Map<string, string>
}

async function readSurroundings(tx: Tx, candidates: readonly Candidate[]): Promise<Found> {
  const ports = new Map<string, (readonly number[] | undefined)[]>()
  for (const { given, template } of candidates) {
    const { body } = given.input
    const named = namedPorts(namedPort(body), requestsOf(template))
    ports.set(body.nodeId, [...(ports.get(body.nodeId) ?? []), named])
  }
  const names = candidates.map(({ given, ownerId }) => ({ ownerId, name: given.input.body.name }))
  const [nodes, namesakes, holds] = await Promise.all([
    nodesForNew(tx.q, [...ports.keys()]),
    namesakesOf(tx.q, names),
    Promise.all(Array.from(ports, async ([id, claims]) => [id, await readHoldsFor(tx.q, id, claims)] as const)),
  ])
  const holdsOf = new Map(holds)
  const places = nodes.map((node) => [node.id, { node, holds: holdsOf.get(node.id) ?? new PortHolds() }] as const)
  return { places: new Map(places), namesakes, named: new Map() }
}

/** Plans one, and takes what it takes from those behind it. */
async function planOne(
  { given, work, ownerId, template }: Candidate,
  { found, place, together }: { readonly found: Found; readonly place: number; readonly together: ClaimsTogether },
): Promise<NewServerPlan> {
  const { body } = given.input
  const there = found.places.get(body.nodeId)
  const key = JSON.stringify([ownerId, body.name])
  const namesake = found.namesakes[place] ?? found.named.get(key)
  const own = { holds: new PortHolds(there?.holds), together: new ClaimsTogether() }
  const plan = await planServer(work, body, { ownerId, template, node: there?.node, namesake, ...own })
  if (there === undefined) return plan
  const { memoryMb, cpuCores } = there.node.given
  const { row } = plan
  there.node = {
    ...there.node,
    given: { memoryMb: memoryMb + row.memoryMb, cpuCores: roundedCores(cpuCores + row.cpuCores) },
  }
  own.holds.addTo(there.holds)
  own.together.addTo(together)
  found.named.set(key, row.id)
  return plan
}

/** Writes the servers with what they leave; answers how each is shown to who has asked for it. */
async function write(
  tx: Tx,
  { plans, together }: { readonly plans: ReadonlyMap<Candidate, NewServerPlan>; readonly together: ClaimsTogether },
): Promise<Map<Candidate, Created>> {
  const answers = new Map<Candidate, Created>()
  const [first] = plans.keys()
  if (first === undefined) return answers
  const allocationOf = await together.write(tx)
  const made = [...plans.values()]
  const orders = made.map(({ order }) => order)
  const commandIds = await addCommands(tx, first.work.deps, orders)
  const added = made.map(({ row }) => ({ ...row, allocationId: allocationOf(row.allocationId) }))
  await insertServerRows(tx.q, added)
  const stored = await findServerRows(tx.q, made.map(({ row }) => row.id)) // biome-ignore format: one line
  const rows = new Map(stored.map((row) => [row.id, row]))
  for (const [place, [candidate, { row, done }]] of [...plans].entries()) {
    const { work } = candidate
    const own = rows.get(row.id)
    const commandId = commandIds[place]
    if (own === undefined || commandId === undefined) throw new Error('a server was left out')
    const shown = toServer(own, await viewerOf(tx, work.holder, [own]), work.deps.facts)
    answers.set(candidate, { ...shown, commandId })
    await work.record(done)
  }
  return answers
}
