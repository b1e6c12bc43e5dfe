import { describe, expect, it } from 'vitest'
import { readKeyNames } from '../../../src/cli/tui/keys/keys.ts'
import { press } from '../../../src/cli/tui/keys/press.ts'
import { Lines } from '../../../src/cli/tui/log/lines.ts'
import { Ring } from '../../../src/cli/tui/log/ring.ts'
import { type ConsoleState, type Effect, initialState } from '../../../src/cli/tui/model/model.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { themeOf } from './drawn.ts'
import { inputsOf } from './keys-of.ts'

/** What the bytes of a terminal make a screen do. */
function effectsOf(bytes: string, readOnly = false): Effect[] {
  const ring = new Ring({ lines: 100 })
  const lines = new Lines(ring, systemClock, themeOf('none'))
  lines.resize({ width: 79, height: 18 })
  const detachKeys = readKeyNames('ctrl-]')
  let state = initialState({ serverName: 'survival-1', readOnly, detachKeys, history: [], time: 'off', colour: true })
  const effects: Effect[] = []
  const around = { ring, pane: (of: ConsoleState) => lines.pane(of), exportPath: '/tmp/a.log', columns: 79, nowMs: 0 }
  for (const input of inputsOf(bytes)) {
    const step = press(state, input, { ...around, matches: lines.matches })
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
