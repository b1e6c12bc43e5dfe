import { grouped, type PendingEula } from '../model/facts.ts'
import type { ConsoleState } from '../model/model.ts'
import type { Field, FieldsProps } from './fields.tsx'

/** What of the view is shown beside the state. */
export interface ViewFacts {
  readonly nowMs: number
  /** The place after the newest line. */
  readonly end: number
  /** Which match of how many stands in the view, and whether lines are still being searched. */
  readonly match: { readonly index: number; readonly count: number; readonly searching: boolean } | undefined
  /** More lines come than can be shown. */
  readonly sampling: boolean
}

/** What the rule under the log says. */
export interface StatusFacts {
  readonly state: ConsoleState
  readonly view: ViewFacts
  readonly width: number
  readonly wide: boolean
}

/** The rule under the log: a message, or what the view stands on; at the right what it is set to. */
export function statusFields({ state, view, width, wide }: StatusFacts): FieldsProps {
  const message = messageField(state, view.nowMs)
  const left = message === undefined ? viewFields(state, view) : [message]
  const right: Field[] = [
    { text: `follow ${state.follow ? 'ON' : 'off'}`, tone: state.follow ? 'dim' : 'warn' },
    { text: `ts ${state.time}`, tone: 'dim' },
    { text: `wrap ${state.wrap ? 'on' : 'off'}`, tone: 'dim' },
    ...(state.mouse ? [] : [{ text: 'mouse off', tone: 'dim' as const }]),
    ...(wide ? [{ text: `history ${state.history.length}/500`, tone: 'dim' as const }] : []),
  ]
  return { left, right: message === undefined ? right : [], width, ruled: true }
}

/** Where the view stands, how it was come to, and to what it is narrowed; the most important first. */
export function viewFields(state: ConsoleState, view: ViewFacts): Field[] {
  const fields: Field[] = []
  if (state.facts.eula !== undefined && state.mode.kind !== 'eula') fields.push(eulaField(state, state.facts.eula))
  if (view.match !== undefined) fields.push(matchField(state, view.match))
  if (!state.follow) fields.push(pausedField(state, view))
  if (view.sampling) {
    const text = `SAMPLE of ${grouped(state.facts.rate)} l/s: the newest screenful; all lines are kept`
    fields.push({ text, tone: 'warn' })
  }
  const { filter, level } = state
  if (filter !== undefined) {
    fields.push({ text: `filter: ${filter.inverse ? '!' : ''}/${filter.pattern}/`, tone: 'warn' })
  }
  if (level !== 'all') fields.push({ text: `level ${level.toUpperCase()}`, tone: 'warn' })
  return fields
}

/** The game does not run before somebody has answered. */
function eulaField(state: ConsoleState, eula: PendingEula): Field {
  const key = state.focus === 'log' ? 'E' : 'F7'
  const what = eula.declined ? 'agreement declined' : 'the game asks for an agreement'
  return { text: `${what} · ${key} shows it`, tone: 'warn' }
}

function matchField(state: ConsoleState, match: NonNullable<ViewFacts['match']>): Field {
  const { index, count, searching } = match
  const place = index < 0 ? `${grouped(count)} matches` : `match ${grouped(index + 1)}/${grouped(count)}`
  return { text: `/${state.search?.pattern ?? ''}/ ${place}${searching ? ' …' : ''}`, tone: 'accent' }
}

/** The keys that follow again, as they work from where the focus is: no letter is named that would be typed into the game. */
function pausedField(state: ConsoleState, view: ViewFacts): Field {
  const added = grouped(Math.max(0, view.end - state.pausedEnd))
  const keys = state.focus === 'log' ? 'G or f to follow' : 'PgDn scrolls down'
  return { text: `PAUSED · ${added} new lines below · ${keys}`, tone: 'warn' }
}

/** The one thing that most needs to be read: a notice, or a command on its way. */
export function messageField(state: ConsoleState, nowMs: number): Field | undefined {
  const { notice } = state
  if (notice !== undefined && notice.untilMs > nowMs) return { text: notice.text, tone: 'message' }
  const send = state.sends.at(-1)
  if (send === undefined) return undefined
  const more = state.queued > 0 ? ` (${state.queued} more · Ctrl-C stops)` : ''
  if (send.state === 'failed') return { text: `✗ not sent: ${send.problem ?? ''} · ${send.text}`, tone: 'bad' }
  return {
    text: `${send.state === 'pending' ? '»' : '✓'} ${send.text}${more}`,
    tone: send.state === 'sent' ? 'good' : 'typed',
  }
}
