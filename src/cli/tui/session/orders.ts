import { getLogs, type LogLine, sendCommand } from '../../../shared/api/console.ts'
import { powerServer } from '../../../shared/api/power.ts'
import { answerServerEula } from '../../../shared/api/server-life.ts'
import type { Client } from '../../../shared/client.ts'
import type { ServerId } from '../../../shared/kernel/ids.ts'
import type { PowerAction } from '../../../shared/kernel/server-life.ts'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { NewEntry, Ring } from '../log/ring.ts'
import { editorWith } from '../model/editor.ts'
import { withEula } from '../model/eula.ts'
import { notify, shiftPlaces } from '../model/model.ts'
import { gapText, type Progress } from './feed.ts'
import { sentenceOf } from './refusals.ts'
import type { Store } from './store.ts'

export interface OrderOptions {
  readonly client: Client
  readonly serverId: ServerId
  readonly store: Store
  readonly ring: Ring
  readonly progress: Progress
  readonly clock: Clock
  readonly signal: AbortSignal
}

const PASTE_PACE_MS = 200
const PAGE_LINES = 500
const GAP_LINES = 2000

/** What the screen asks of the daemon. Each reports by the state; none rejects. */
export interface Orders {
  /** Sends commands one after the other in the order of the calls; several at once at 5 lines per second. */
  send(lines: readonly string[]): void
  /** Sends nothing more of what waits; says how many lines that were. */
  stop(): void
  /** The lines that wait for their turn, in order. */
  unsent(): readonly string[]
  /** Resolves when the command on its way is answered; those behind it are not sent once the screen has ended. */
  settled(): Promise<void>
  power(action: PowerAction): Promise<void>
  /** Accepts or declines the agreement that the game asks for. */
  answerEula(accepted: boolean): Promise<void>
  /** Puts the page before the oldest line in front; whether there was one. */
  loadOlder(): Promise<boolean>
  /** Fills the gap at a place as far as the log still has its lines; whether it changed anything. */
  loadGap(at: number): Promise<boolean>
}

/** The orders of one screen. */
export function createOrders(options: OrderOptions): Orders {
  const { store, clock } = options
  const outbox: Outbox = { waiting: [], turn: new AbortController(), nextId: 1, batches: 0 }
  let sending: Promise<void> | undefined
  let loading = false
  const say = (text: string): void => store.set(notify(store.get(), text, clock.nowMs()))
  const alone = async (work: () => Promise<boolean>): Promise<boolean> => {
    if (loading) return false
    loading = true
    try {
      return await work()
    } catch (error) {
      say(`✗ ${sentenceOf(error)}`)
      return false
    } finally {
      loading = false
    }
  }
  return {
    send: (lines) => {
      outbox.batches += 1
      const batch = outbox.batches
      outbox.waiting.push(...lines.map((text) => ({ text, batch })))
      sending ??= sendWaiting(options, outbox).finally(() => {
        sending = undefined
      })
    },
    stop: () => {
      const left = outbox.waiting.length
      outbox.waiting = []
      outbox.turn.abort()
      store.set({ ...store.get(), queued: 0 })
      if (left > 0) say(`stopped: ${left} ${left === 1 ? 'line' : 'lines'} not sent`)
    },
    unsent: () => outbox.waiting.map(({ text }) => text),
    settled: () => sending ?? Promise.resolve(),
    power: async (action) => {
      try {
        say(`${action} …`)
        const order = await options.client.call(powerServer, {
          params: { serverId: options.serverId },
          body: { action },
        })
        say(`✓ ${action} accepted (${order.commandId})`)
      } catch (error) {
        say(`✗ ${action}: ${sentenceOf(error)}`)
      }
    },
    answerEula: async (accepted) => {
      try {
        const params = { serverId: options.serverId }
        await options.client.call(answerServerEula, { params, body: { accepted } })
        const { eula } = store.get().facts
        store.set(withEula(store.get(), accepted || eula === undefined ? undefined : { ...eula, declined: true }))
        say(accepted ? '✓ the agreement is accepted: F5 starts the server' : '✓ the agreement is declined')
      } catch (error) {
        say(`✗ not answered: ${sentenceOf(error)}`)
      }
    },
    loadOlder: () => alone(() => loadOlder(options, say)),
    loadGap: (at) => alone(() => loadGap(options, at, say)),
  }
}

/** The lines that wait for their turn, and what ends the pause before the next one. */
interface Outbox {
  waiting: Waiting[]
  turn: AbortController
  nextId: number
  batches: number
}

/** A line, and which of the calls it came with. */
interface Waiting {
  readonly text: string
  readonly batch: number
}

/** Sends what waits, a line at a time; when a line is refused, those that came with it are dropped. */
async function sendWaiting(options: OrderOptions, outbox: Outbox): Promise<void> {
  const { store, clock, signal } = options
  for (let next = outbox.waiting.shift(); next !== undefined; next = outbox.waiting.shift()) {
    const problem = await sendOne(options, outbox, next.text)
    if (problem !== undefined) drop(options, outbox, next, problem)
    if (outbox.waiting[0]?.batch === next.batch) {
      outbox.turn = new AbortController()
      await clock.sleep(PASTE_PACE_MS, AbortSignal.any([signal, outbox.turn.signal]))
    }
    if (signal.aborted) return
  }
  store.set({ ...store.get(), queued: 0 })
}

function drop({ store, clock }: OrderOptions, outbox: Outbox, { text, batch }: Waiting, problem: string): void {
  const before = outbox.waiting.length
  outbox.waiting = outbox.waiting.filter((waiting) => waiting.batch !== batch)
  const left = before - outbox.waiting.length
  const state = store.get()
  // What was typed comes back into the line, unless something else is being typed already.
  const kept = left === 0 && state.editor.text === '' ? { ...state, editor: editorWith(text, state.editor) } : state
  const said = left > 0 ? notify(kept, `✗ ${problem}; stopped, ${left + 1} lines not sent`, clock.nowMs()) : kept
  store.set({ ...said, queued: outbox.waiting.length })
}

/** Sends one command; why it failed, if it did. */
async function sendOne(options: OrderOptions, outbox: Outbox, text: string): Promise<string | undefined> {
  const { store, clock } = options
  const before = store.get()
  const id = outbox.nextId
  outbox.nextId += 1
  store.set({
    ...before,
    notice: undefined,
    queued: outbox.waiting.length,
    sends: [...before.sends.slice(-20), { id, text, state: 'pending' }],
  })
  const settle = (change: { state: 'sent' | 'failed'; problem?: string }): void => {
    const state = store.get()
    const endedMs = clock.nowMs()
    store.set({ ...state, sends: state.sends.map((send) => (send.id === id ? { ...send, ...change, endedMs } : send)) })
  }
  try {
    // What was typed is sent, also when the screen is left before the answer.
    await options.client.call(sendCommand, { params: { serverId: options.serverId }, body: { command: text } })
    settle({ state: 'sent' })
    return undefined
  } catch (error) {
    const problem = sentenceOf(error)
    settle({ state: 'failed', problem })
    return problem
  }
}

async function loadOlder(options: OrderOptions, say: (text: string) => void): Promise<boolean> {
  const { ring, progress, store } = options
  const oldest = ring.get(ring.first)
  if (oldest === undefined || progress.epoch === '' || oldest.seq <= 1) {
    say('this is the beginning of the log')
    return false
  }
  const before = `${progress.epoch}-${oldest.seq}`
  const page = await options.client.call(getLogs, {
    params: { serverId: options.serverId },
    query: { lines: PAGE_LINES, before },
  })
  const lines = page.logs.filter((line) => line.id.startsWith(`${progress.epoch}-`) && line.seq < oldest.seq)
  if (lines.length === 0) {
    say('the log has no older lines')
    return false
  }
  // The page is put where the oldest line still is: it may have left the ring meanwhile.
  if (ring.get(ring.first)?.seq !== oldest.seq) return false
  ring.prepend(lines.map(entryOf))
  say(`${lines.length} older lines loaded`)
  store.touch()
  return true
}

async function loadGap(options: OrderOptions, at: number, say: (text: string) => void): Promise<boolean> {
  const { ring, progress, store } = options
  const gap = ring.get(at)
  if (gap?.kind !== 'gap') return false
  const [from, to] = [gap.seq, gap.ms]
  const page = await options.client.call(getLogs, {
    params: { serverId: options.serverId },
    query: { lines: Math.min(GAP_LINES, Math.max(1, to - from + 1)), after: `${progress.epoch}-${from - 1}` },
  })
  const lines = page.logs.filter(
    (line) => line.id.startsWith(`${progress.epoch}-`) && line.seq >= from && line.seq <= to,
  )
  const [first, last] = [lines[0], lines.at(-1)]
  if (first === undefined || last === undefined) {
    say('these lines are gone from the log of the node')
    return false
  }
  const entries = [...missing(from, first.seq - 1), ...lines.map(entryOf), ...missing(last.seq + 1, to)]
  // While the page was on its way, another fill may have moved places.
  if (ring.get(at)?.text !== gap.text) return false
  ring.replace(at, entries)
  store.set(notify(shiftPlaces(store.get(), at, entries.length), `${lines.length} lines loaded`, options.clock.nowMs()))
  return true
}

function missing(from: number, to: number): NewEntry[] {
  if (to < from) return []
  return [{ seq: from, ms: to, kind: 'gap', text: gapText(from, to, to - from + 1, 'not loaded') }]
}

function entryOf(line: LogLine): NewEntry {
  return { seq: line.seq, ms: Date.parse(line.timestamp), kind: line.stream, text: line.data }
}
