import { errorText } from '../logger.ts'
import type { Protocol } from '../runtime/bind.ts'
import type { Run } from '../runtime/runtime.ts'
import { addressText, type OpenSocket } from '../runtime/sockets.ts'
import { awaitReady } from './ready.ts'
import type { GameServer } from './server.ts'

/** From when on a server that is still starting, or that listens nowhere, gets a reason. */
const SLOW_MS = 120_000
/** Some games open their port a moment after their ready line. */
const GRACE_MS = 5000
const LOOK_MS = 60_000
const AGAIN_MS = 6000
const EXPLAIN_MS = 2000
const EXPLAIN_AGAIN_MS = 10_000
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1000
const SHOWN_SOCKETS = 5

/**
 * Follows a living game: it is running when its ready rule has matched and a process of it has its port, as far as its
 * template says something of either. Afterwards the port is looked at every minute, together with those of all others.
 */
export function watchGame(server: GameServer, run: Run): void {
  const over = new AbortController()
  const stop = (): void => over.abort()
  run.exited.then(stop, stop)
  const signal = AbortSignal.any([over.signal, server.gone.signal, server.context.ending])
  const watch: Watch = { server, run, signal, sinceMs: server.context.clock.monotonicMs() }
  follow(watch).catch((error: unknown) => {
    // The exit of the run ends the watch by itself; here something is wrong with the node.
    if (signal.aborted) return
    server.context.log.error({ serverId: server.id, err: errorText(error) }, 'cannot watch running server')
  })
}

/** One run that is watched, and since when, by a clock that nobody sets. */
interface Watch {
  readonly server: GameServer
  readonly run: Run
  readonly signal: AbortSignal
  readonly sinceMs: number
}

async function follow(watch: Watch): Promise<void> {
  const { server, run, signal } = watch
  // A stop that did not reach the game leaves it as it was.
  while (!signal.aborted && server.game?.run === run) {
    await (server.power === 'starting' ? bringUp(watch) : lookAgain(watch))
  }
}

async function bringUp(watch: Watch): Promise<void> {
  const { server, run, signal } = watch
  const up = new AbortController()
  const starting = { ...watch, signal: AbortSignal.any([signal, up.signal]) }
  const progress: Progress = { readyAtMs: undefined }
  const explained = explainStart(starting, progress)
  try {
    if (!(await awaitReady(server, run, starting.signal))) return
    progress.readyAtMs = server.context.clock.monotonicMs()
    await awaitPort(starting)
  } finally {
    up.abort()
    await explained
  }
  if (!signal.aborted) await markRunning(server, run)
}

interface Progress {
  readyAtMs: number | undefined
}

/** A server that stays `starting` says why. */
async function explainStart(watch: Watch, progress: Progress): Promise<void> {
  const { server, run, signal, sinceMs } = watch
  const { clock, rounds } = server.context
  const isRuled = server.rules.done.length > 0
  while (isStill('starting', watch)) {
    const nowMs = clock.monotonicMs()
    const { readyAtMs } = progress
    const isSlow = nowMs - sinceMs >= SLOW_MS
    const isDeaf = isRuled && readyAtMs !== undefined && nowMs - readyAtMs >= GRACE_MS
    // A game whose port was taken before its own bind may never come to its ready line.
    const isTaken =
      isRequired(server) && nowMs - sinceMs >= GRACE_MS && (await foreignListeners(server, run)).length > 0
    const isDue = isSlow || isDeaf || isTaken
    if (isDue) {
      const what =
        isSlow && isRuled && readyAtMs === undefined ? 'Its ready line has not come within 2 minutes' : undefined
      const reason = await portReason(server, run, what)
      // The look at the port takes a moment, in which all may have changed.
      if (isStill('starting', watch) && server.facts.reason !== reason) await server.change({ facts: { reason } })
    }
    await rounds.next(isDue ? EXPLAIN_AGAIN_MS : EXPLAIN_MS, signal)
  }
}

/** Resolves when a process of the run has the server's port, or at once where the template does not ask for that. */
async function awaitPort(watch: Watch): Promise<void> {
  const { server, run, signal } = watch
  const { clock } = server.context
  if (!isRequired(server)) return
  for (let pauseMs = FIRST_PAUSE_MS; isStill('starting', watch); pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 1.5)) {
    if (await hasPort(server, run)) return
    await clock.sleep(pauseMs, signal)
  }
}

async function markRunning(server: GameServer, run: Run): Promise<void> {
  const { launch } = server.facts
  if (server.game?.run !== run || server.power !== 'starting' || launch === null) return
  await server.refreshBounds()
  if (server.game?.run !== run || server.power !== 'starting') return
  const readyAtMs = server.context.clock.nowMs()
  await server.change({ power: 'running', facts: { launch: { ...launch, readyAtMs }, reason: null } })
}

/** One look at the port of a running server. While it runs its reason is about its port and nothing else. */
async function lookAgain(watch: Watch): Promise<void> {
  const { server, run, signal, sinceMs } = watch
  const { clock, rounds } = server.context
  await rounds.next(LOOK_MS, signal)
  if (!isStill('running', watch) || addressOf(server) === undefined) return
  // Where nobody said that it listens, it has as long as a slow start before that is worth a word.
  if (!isRequired(server) && clock.monotonicMs() - sinceMs < SLOW_MS) return
  let has = await hasPort(server, run)
  if (!has) {
    // Games close their port for a moment when they change the map.
    await rounds.next(AGAIN_MS, signal)
    if (!isStill('running', watch)) return
    has = await hasPort(server, run)
  }
  const reason = has ? null : await portReason(server, run)
  if (isStill('running', watch) && server.facts.reason !== reason) await server.change({ facts: { reason } })
}

function isStill(power: 'starting' | 'running', { server, run, signal }: Watch): boolean {
  return !signal.aborted && server.power === power && server.game?.run === run
}

/** What is missing, and what the server's processes listen on instead. */
async function portReason(server: GameServer, run: Run, what?: string): Promise<string> {
  const sockets = await run.listening()
  const parts = what === undefined ? [] : [what]
  const address = addressOf(server)
  if (address !== undefined && !(await hasPort(server, run))) {
    parts.push(`no process of the server listens on ${protocolText(server)} ${addressText(address)}`)
    for (const text of await foreignListeners(server, run)) parts.push(`its port ${text}`)
  }
  if (parts.length === 0) parts.push('It has not become ready within 2 minutes')
  parts.push(sockets.length === 0 ? 'it listens on no port' : `it listens on ${socketsText(sockets)}`)
  const text = parts.join('; ')
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}

/** Other programs that have the server's port, each as the end of a sentence about it. */
async function foreignListeners(server: GameServer, run: Run): Promise<string[]> {
  const address = addressOf(server)
  if (address === undefined || run.hasOwnNetwork) return []
  const texts: string[] = []
  for (const protocol of protocolsOf(server)) {
    const there = (await server.context.sockets.at(address)).some((one) => one.protocol === protocol)
    if (!there || (await run.listening(address)).some((one) => one.protocol === protocol)) continue
    texts.push(`(${protocol.toUpperCase()}) is in use by another program`)
  }
  return texts
}

function socketsText(sockets: readonly OpenSocket[]): string {
  const texts = [...new Set(sockets.map((socket) => `${socket.protocol.toUpperCase()} ${addressText(socket)}`))].sort()
  const more = texts.length - SHOWN_SOCKETS
  return `${texts.slice(0, SHOWN_SOCKETS).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

async function hasPort(server: GameServer, run: Run): Promise<boolean> {
  const address = addressOf(server)
  if (address === undefined) return true
  const found = new Set((await run.listening(address)).map(({ protocol }) => protocol))
  const wanted = protocolsOf(server)
  return server.rules.listens === 'both' ? wanted.every((one) => found.has(one)) : wanted.some((one) => found.has(one))
}

/** The address that the server is to have; `undefined` where its template says that it listens on none. */
function addressOf({ rules }: GameServer): { readonly ip: string; readonly port: number } | undefined {
  return rules.listens === 'none' ? undefined : (rules.ports.find(({ primary }) => primary) ?? rules.ports[0])
}

function isRequired(server: GameServer): boolean {
  return server.rules.listens !== undefined && addressOf(server) !== undefined
}

function protocolsOf({ rules }: GameServer): readonly Protocol[] {
  return rules.listens === 'tcp' || rules.listens === 'udp' ? [rules.listens] : ['tcp', 'udp']
}

function protocolText(server: GameServer): string {
  const join = server.rules.listens === 'both' ? ' and ' : ' or '
  return protocolsOf(server)
    .map((protocol) => protocol.toUpperCase())
    .join(join)
}
