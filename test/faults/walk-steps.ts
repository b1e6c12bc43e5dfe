import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { sendCommand } from '../../src/shared/api/console.ts'
import { installServer, powerServer } from '../../src/shared/api/power.ts'
import { patchServer } from '../../src/shared/api/servers.ts'
import { PanelError } from '../../src/shared/errors.ts'
import type { PowerAction } from '../../src/shared/server-life.ts'
import { pause } from '../e2e/wait.ts'
import { bookOf, holdersOf } from './walk-look.ts'
import type { Walker, WalkStage } from './walk-stage.ts'

/** One step of the walk, and how long it is until the next one. `server` counts the walkers, `node` the nodes. */
export type Step = { readonly gapMs: number } & (
  | { readonly what: 'order'; readonly server: number; readonly action: PowerAction }
  | { readonly what: 'install'; readonly server: number; readonly start: boolean }
  | { readonly what: 'type'; readonly server: number; readonly text: 'say' | 'stop' | 'exit 0' | 'exit 3' }
  | { readonly what: 'edit'; readonly server: number }
  | { readonly what: 'kill game' | 'end game' | 'kill holder'; readonly server: number }
  | { readonly what: 'kill daemon'; readonly awayMs: number }
  | { readonly what: 'kill agent' | 'cut cable'; readonly node: number; readonly awayMs: number }
)

/** What an accepted order was, and who gets to know of it. */
export interface AcceptedOrder {
  readonly commandId: string
  readonly generation: number
  readonly wish: 'running' | 'stopped'
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
    fc.record({ what: fc.constant(what), gapMs, ...fields })
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
  ) as fc.Arbitrary<Step> // each of them is one; fast-check's record cannot say so
}

/** Takes a step. Resolves when it is over and its outcome, as far as it can be known, stands among the deeds. */
export async function take(stage: WalkStage, step: Step, deedsOf: (walker: Walker) => Deeds): Promise<void> {
  if (step.what === 'kill daemon') return await stage.killDaemon(step.awayMs)
  if ('node' in step) {
    const node = stage.nodes[step.node]
    if (node === undefined) throw new Error('no such node')
    return await (step.what === 'kill agent' ? stage.killAgent(node, step.awayMs) : stage.cutCable(node, step.awayMs))
  }
  const walker = stage.walkers[step.server]
  if (walker === undefined) throw new Error('no such server')
  const deeds = deedsOf(walker)
  if (step.what === 'order' || step.what === 'install') return await order(stage, step, walker, deeds)
  if (step.what === 'type') return await type(stage, step.text, walker, deeds)
  if (step.what === 'edit') return await edit(stage, walker)
  if (step.what === 'kill holder') return await killHolder(walker)
  await endGame(walker, deeds, step.what === 'kill game' ? 'SIGKILL' : 'SIGTERM')
}

/** The order is asked for again under one key until the daemon says what has become of it. */
async function order(
  { panel }: WalkStage,
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
          ? await panel.client.call(installServer, { params, body: { start: step.start } }, options)
          : await panel.client.call(powerServer, { params, body: { action: step.action } }, options)
      const runs = step.what === 'install' ? step.start : step.action === 'start' || step.action === 'restart'
      // The second wish for an installation is answered by the first one.
      if (deeds.orders.every((known) => known.commandId !== commandId)) {
        const forgives = runs || step.what === 'order'
        deeds.orders.push({ commandId, generation, wish: runs ? 'running' : 'stopped', forgives })
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

async function type({ panel }: WalkStage, text: string, { server, character }: Walker, deeds: Deeds): Promise<void> {
  const command = text === 'say' ? `say ${randomUUID()}` : text
  // Only its rule makes the typed word a stop for the panel; every game ends by it.
  if (text === 'stop' && character.stop.stopCommand === 'stop') deeds.typedStop = true
  if (text !== 'say') deeds.disturbed = true
  try {
    await panel.client.call(sendCommand, { params: { serverId: server.id }, body: { command } })
    if (text === 'say') deeds.typed.push(command)
  } catch (error) {
    // A connection that breaks takes the answer with it: the game may have the line.
    const isOffline = error instanceof PanelError && error.code === 'NODE_OFFLINE'
    if (text === 'say' && (isOffline || !isRefusal(error))) deeds.perhapsTyped.push(command)
  }
}

async function edit({ panel }: WalkStage, { server }: Walker): Promise<void> {
  const body = { description: `edited ${randomUUID()}` }
  await panel.client.call(patchServer, { params: { serverId: server.id }, body }).catch((error: unknown) => {
    if (error instanceof PanelError && isRefusal(error)) throw error
    // With the daemon away it may have been done or not: audit and events must agree either way.
  })
}

/** The game must not notice: another holder takes its place. */
async function killHolder(walker: Walker): Promise<void> {
  for (const pid of await holdersOf(walker)) killNow(pid)
}

/** Ends the process that the game's own book names last, if it is alive: at once, or as a person does who may sign in there. */
async function endGame(walker: Walker, deeds: Deeds, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  const run = (await bookOf(walker)).at(-1)
  if (run === undefined || run.end !== null) return
  deeds.disturbed = true
  killNow(run.pid, signal)
}

function killNow(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended before.
  }
}

/** Whether the daemon itself has said that it was not done: any answer of its own but that nobody knows. */
function isRefusal(error: unknown): boolean {
  return error instanceof PanelError && !['AGENT_TIMEOUT', 'AGENT_ERROR', 'SHUTTING_DOWN'].includes(error.code)
}
