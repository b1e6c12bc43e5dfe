import { randomInt, randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { sendCommand } from '../../src/shared/api/console.ts'
import { installServer, powerServer } from '../../src/shared/api/power.ts'
import { patchServer } from '../../src/shared/api/servers.ts'
import type { Client } from '../../src/shared/client.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import type { PowerAction } from '../../src/shared/kernel/server-life.ts'
import { pause } from '../e2e/wait.ts'
import { bookOf, holdersOf } from './walk-look.ts'
import { CLIENTS, sendSignal, type Walker, type WalkNode, type WalkStage } from './walk-stage.ts'

/** One step of a client, and how long it waits after it. `server` counts the walkers, `node` the nodes. */
export type Step = { readonly gapMs: number; readonly client: number } & (
  | { readonly what: 'order'; readonly server: number; readonly action: PowerAction }
  | { readonly what: 'install'; readonly server: number; readonly start: boolean }
  | { readonly what: 'type'; readonly server: number; readonly text: 'say' | 'stop' | 'exit 0' | 'exit 3' }
  | { readonly what: 'edit'; readonly server: number }
  | { readonly what: 'kill game' | 'end game' | 'kill holder'; readonly server: number }
  | { readonly what: 'freeze game' | 'freeze holder'; readonly server: number; readonly awayMs: number }
  | { readonly what: 'kill daemon' | 'freeze daemon'; readonly awayMs: number }
  | { readonly what: NodeFault; readonly node: number; readonly awayMs: number }
)

type NodeFault = 'kill agent' | 'freeze agent' | 'cut cable' | 'slow cable'

/** What an accepted order was, and who gets to know of it. */
export interface AcceptedOrder {
  readonly commandId: string
  readonly generation: number
  readonly desired: 'running' | 'stopped'
  /** A power order takes earlier crashes as seen; an installation alone does not. */
  readonly forgives: boolean
}

/** What the steps since the last rest have done to one server, as far as whoever took them knows. */
export interface Deeds {
  readonly orders: AcceptedOrder[]
  /** Orders that were carried out, but whose answer was lost with a daemon. */
  lost: number
  /** The game was killed, or told to end, by hand. */
  disturbed: boolean
  /** The stop command was typed: the end that follows is an expected one. */
  typedStop: boolean
  /** Lines that the game has, by the panel's word, and lines of which that is not known. */
  readonly typed: string[]
  readonly perhapsTyped: string[]
}

export function noDeeds(): Deeds {
  return { orders: [], lost: 0, disturbed: false, typedStop: false, typed: [], perhapsTyped: [] }
}

/** Longer than a connection lives without a byte: the node goes offline. */
const LONG_CUT_MS = 33_000

/** Steps of any kind over so many servers and nodes; orders come most often, and long cuts seldom if at all. */
export function steps(servers: number, nodes: number, options: { longCuts: boolean }): fc.Arbitrary<Step> {
  const gapMs = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 3, arbitrary: fc.nat({ max: 300 }) })
  const client = fc.nat({ max: CLIENTS - 1 })
  const server = fc.nat({ max: servers - 1 })
  const node = fc.nat({ max: nodes - 1 })
  const awayMs = fc.oneof(
    { weight: 3, arbitrary: fc.nat({ max: 400 }) },
    { weight: 1, arbitrary: fc.nat({ max: 3000 }) },
  )
  const longMs = fc.constant(LONG_CUT_MS)
  const cutMs = options.longCuts
    ? fc.oneof({ weight: 30, arbitrary: awayMs }, { weight: 1, arbitrary: longMs })
    : awayMs
  const of = <T extends Step['what'], F extends object>(what: T, fields: { [K in keyof F]: fc.Arbitrary<F[K]> }) =>
    fc.record({ what: fc.constant(what), client, gapMs, ...fields })
  const action = fc.constantFrom<PowerAction>('start', 'start', 'stop', 'stop', 'restart', 'restart', 'kill')
  const text = fc.constantFrom('say', 'say', 'say', 'stop', 'exit 0', 'exit 3')
  return fc.oneof(
    { weight: 12, arbitrary: of('order', { server, action }) },
    { weight: 2, arbitrary: of('install', { server, start: fc.boolean() }) },
    { weight: 5, arbitrary: of('type', { server, text }) },
    { weight: 2, arbitrary: of('edit', { server }) },
    { weight: 3, arbitrary: of('kill game', { server }) },
    { weight: 2, arbitrary: of('end game', { server }) },
    { weight: 1, arbitrary: of('kill holder', { server }) },
    { weight: 1, arbitrary: of('kill daemon', { awayMs }) },
    { weight: 2, arbitrary: of('kill agent', { node, awayMs }) },
    { weight: 2, arbitrary: of('cut cable', { node, awayMs: cutMs }) },
    { weight: 2, arbitrary: of('slow cable', { node, awayMs }) },
    { weight: 1, arbitrary: of('freeze daemon', { awayMs }) },
    { weight: 1, arbitrary: of('freeze agent', { node, awayMs: cutMs }) },
    { weight: 1, arbitrary: of('freeze holder', { server, awayMs }) },
    { weight: 2, arbitrary: of('freeze game', { server, awayMs }) },
  ) as fc.Arbitrary<Step> // each of them is one; fast-check's record cannot say so
}

/** Takes a step. Resolves when it is over and its outcome, as far as it can be known, stands among the deeds. */
export async function take(stage: WalkStage, step: Step, deedsOf: (walker: Walker) => Deeds): Promise<void> {
  if ('node' in step) return await failNode(stage, step)
  if (!('server' in step)) {
    return await (step.what === 'kill daemon' ? stage.killDaemon(step.awayMs) : stage.freezeDaemon(step.awayMs))
  }
  const walker = stage.walkers[step.server]
  const client = stage.clients[step.client]
  if (walker === undefined || client === undefined) throw new Error('no such server or client')
  const deeds = deedsOf(walker)
  // biome-ignore lint/nursery/useExhaustiveSwitchCases: those of daemon and agent are carried out above
  switch (step.what) {
    case 'order':
    case 'install':
      return await order(client, step, walker, deeds)
    case 'type':
      return await type(client, step.text, walker, deeds)
    case 'edit':
      return await edit(client, walker)
    case 'kill holder':
      return await killHolder(walker)
    case 'freeze holder':
      return await stage.freezeProcesses(`holder of ${walker.server.id}`, step.awayMs, () => holdersOf(walker))
    case 'freeze game':
      return await freezeGame(stage, step.awayMs, walker, deeds)
    case 'kill game':
      return await endGame(walker, deeds, 'SIGKILL')
    case 'end game':
      return await endGame(walker, deeds, 'SIGTERM')
  }
}

async function failNode(stage: WalkStage, step: Extract<Step, { node: number }>): Promise<void> {
  const node = stage.nodes[step.node]
  if (node === undefined) throw new Error('no such node')
  const faults: Readonly<Record<NodeFault, (at: WalkNode, awayMs: number) => Promise<void>>> = {
    'kill agent': (at, awayMs) => stage.killAgent(at, awayMs),
    'freeze agent': (at, awayMs) => stage.freezeAgent(at, awayMs),
    'cut cable': (at, awayMs) => stage.cutCable(at, awayMs),
    'slow cable': (at, awayMs) => stage.slowCable(at, awayMs),
  }
  await faults[step.what](node, step.awayMs)
}

/** The order is asked for again under one key until the daemon says what has become of it. */
async function order(
  client: Client,
  step: Extract<Step, { what: 'order' | 'install' }>,
  { server }: Walker,
  deeds: Deeds,
): Promise<void> {
  const params = { serverId: server.id }
  const options = { idempotencyKey: randomUUID() }
  for (;;) {
    try {
      const { commandId, generation } =
        step.what === 'install'
          ? await client.call(installServer, { params, body: { start: step.start } }, options)
          : await client.call(powerServer, { params, body: { action: step.action } }, options)
      const runs = step.what === 'install' ? step.start : step.action === 'start' || step.action === 'restart'
      // The second request for an installation is answered by the first one.
      if (deeds.orders.every((known) => known.commandId !== commandId)) {
        const forgives = runs || step.what === 'order'
        deeds.orders.push({ commandId, generation, desired: runs ? 'running' : 'stopped', forgives })
      }
      return
    } catch (error) {
      if (error instanceof PanelError && error.code === 'CONFLICT') {
        deeds.lost += 1
        return
      }
      if (isRefusal(error)) return
      await pause(100)
    }
  }
}

async function type(client: Client, text: string, { server, character }: Walker, deeds: Deeds): Promise<void> {
  const command = text === 'say' ? `say ${randomUUID()}` : text
  // Only its rule makes the typed word a stop for the panel; every game ends by it.
  if (text === 'stop' && character.stop.stopCommand === 'stop') deeds.typedStop = true
  if (text !== 'say') deeds.disturbed = true
  try {
    await client.call(sendCommand, { params: { serverId: server.id }, body: { command } })
    if (text === 'say') deeds.typed.push(command)
  } catch (error) {
    // A connection that breaks takes the answer with it: the game may have the line.
    const isOffline = error instanceof PanelError && error.code === 'NODE_OFFLINE'
    if (text === 'say' && (isOffline || !isRefusal(error))) deeds.perhapsTyped.push(command)
  }
}

async function edit(client: Client, { server }: Walker): Promise<void> {
  const body = { description: `edited ${randomUUID()}`, startOrder: randomInt(1000) }
  await client.call(patchServer, { params: { serverId: server.id }, body }).catch((error: unknown) => {
    if (error instanceof PanelError && isRefusal(error)) throw error
    // With the daemon away it may have been done or not: audit and events must agree either way.
  })
}

/** The game must not notice: another holder takes its place. */
async function killHolder(walker: Walker): Promise<void> {
  for (const pid of await holdersOf(walker)) sendSignal(pid, 'SIGKILL')
}

/** Ends the process that the game's own book names last, if it is alive: at once, or as a person does who may sign in there. */
async function endGame(walker: Walker, deeds: Deeds, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  const run = (await bookOf(walker)).at(-1)
  if (run === undefined || run.end !== null) return
  deeds.disturbed = true
  sendSignal(run.pid, signal)
}

/** A game that stands still ends by SIGKILL alone: what it was asked meanwhile may not have been done in its time. */
async function freezeGame(stage: WalkStage, awayMs: number, walker: Walker, deeds: Deeds): Promise<void> {
  const key = `game of ${walker.server.id}`
  const run = (await bookOf(walker)).at(-1)
  if (run === undefined || run.end !== null) return
  deeds.disturbed = true
  await stage.freezeProcesses(key, awayMs, async () => [run.pid])
}

/** Whether the daemon itself has said that it was not done: any answer of its own but that nobody knows. */
function isRefusal(error: unknown): boolean {
  return error instanceof PanelError && !['AGENT_TIMEOUT', 'AGENT_ERROR', 'SHUTTING_DOWN'].includes(error.code)
}
