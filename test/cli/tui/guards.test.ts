import { describe, expect, it } from 'vitest'
import { createKeyReader, readKeyNames } from '../../../src/cli/tui/keys.ts'
import { Lines } from '../../../src/cli/tui/lines.ts'
import { type Effect, initialState } from '../../../src/cli/tui/model.ts'
import { press } from '../../../src/cli/tui/press.ts'
import { Ring } from '../../../src/cli/tui/ring.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'

/** What the bytes of a terminal make a screen do. */
function effectsOf(bytes: string, readOnly = false): Effect[] {
  const ring = new Ring({ lines: 100 })
  const lines = new Lines(ring, systemClock, { columns: 80, rows: 24 })
  const detachKeys = readKeyNames('ctrl-]')
  let state = initialState({ serverName: 'survival-1', readOnly, detachKeys, history: [], time: 'off' })
  const effects: Effect[] = []
  const reader = createKeyReader()
  for (const input of [...reader.push(bytes), ...reader.flush()]) {
    const step = press(state, input, { ring, pane: (of) => lines.pane(of), matches: lines.matches, nowMs: 0 })
    state = step.state
    effects.push(...step.effects)
  }
  return effects
}

const F5 = '\u001B[15~'
const pasted = (text: string): string => `\u001B[200~${text}\u001B[201~`
const orders = (effects: readonly Effect[]): unknown[] => effects.filter(({ do: what }) => what === 'power')
const sent = (effects: readonly Effect[]): unknown[] => effects.filter(({ do: what }) => what === 'send')

describe('the console screen', () => {
  it.each(['', ' ', 's', 'survival', 'survival-', 'survival-11', 'Survival-1', 'y'])(
    'kills nothing when %j is typed in place of the name',
    (typed) => expect(orders(effectsOf(`${F5}k${typed}\r`))).toEqual([]),
  )

  it('kills when the name is typed', () => {
    expect(orders(effectsOf(`${F5}ksurvival-1\r`))).toEqual([{ do: 'power', action: 'kill' }])
  })

  it.each([
    ['a line', `${pasted('stop')}\r`],
    ['several lines', `${pasted('stop\nstop\n')}y\r`],
    ['the end of a line', `${pasted('stop\n')}\r`],
    ['a line into the input', `i${pasted('stop')}\r`],
    ['the power menu', `${F5}t`],
  ])('sends nothing when it is read-only: %s', (_, bytes) => {
    expect(effectsOf(bytes, true).filter(({ do: what }) => ['send', 'power'].includes(what))).toEqual([])
    const allowed = effectsOf(bytes)
    expect([...sent(allowed), ...orders(allowed)], 'it is sent otherwise').not.toEqual([])
  })
})
