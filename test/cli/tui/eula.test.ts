import { describe, expect, test } from 'vitest'
import { promptText } from '../../../src/cli/tui/components/prompt.tsx'
import { readKeyNames } from '../../../src/cli/tui/keys/keys.ts'
import { press } from '../../../src/cli/tui/keys/press.ts'
import { wrapWords } from '../../../src/cli/tui/log/cut.ts'
import { Lines } from '../../../src/cli/tui/log/lines.ts'
import { Ring } from '../../../src/cli/tui/log/ring.ts'
import { askedForEula, eulaFacts, eulaRows, withEula } from '../../../src/cli/tui/model/eula.ts'
import { type ConsoleState, type Effect, initialState, type Surroundings } from '../../../src/cli/tui/model/model.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { draw, liveState, themeOf } from './drawn.ts'
import { inputsOf } from './keys-of.ts'

const TEXT = 'By changing the setting below to TRUE you agree to our licence.\nhttps://example.test/eula\n\neula=false'
const LONG = Array.from({ length: 60 }, (_, n) => `Paragraph ${n + 1} of a licence that has many words in it.`).join(
  '\n',
)

/** A screen whose server asks; `may`: the person may start it. */
function asked(text = TEXT, { may = true, readOnly = false, before = {} as Partial<ConsoleState> } = {}): ConsoleState {
  const state = liveState(before, readOnly)
  return askedForEula({ ...state, facts: { ...state.facts, status: 'stopped', mayStart: may } }, text)
}

/** What the bytes of a terminal make of a state. */
function pressed(first: ConsoleState, bytes: string): { state: ConsoleState; effects: Effect[] } {
  const ring = new Ring({ lines: 100 })
  const lines = new Lines(ring, systemClock, themeOf('none'))
  lines.resize({ width: 79, height: 18 })
  const around: Surroundings = {
    ring,
    pane: (of) => lines.pane(of),
    matches: undefined,
    exportPath: '',
    columns: 79,
    nowMs: 0,
  }
  let state = first
  const effects: Effect[] = []
  for (const input of inputsOf(bytes)) {
    const step = press(state, input, around)
    state = step.state
    effects.push(...step.effects)
  }
  return { state, effects }
}

const rowsAt = (columns: number, rows: number, state: ConsoleState): readonly string[] =>
  draw({ columns, rows, state, lines: [{ seq: 1, ms: 0, kind: 'stdout', text: 'You need to agree to the EULA' }] })
    .plain

const F7 = '\u001B[18~'
const DOWN = '\u001B[B'
const PAGE_DOWN = '\u001B[6~'

describe('the agreement of a game, on the console screen', () => {
  test('is shown with its address, and asks for a word', () => {
    const shown = rowsAt(80, 24, asked()).join('\n')
    expect(shown).toContain('The game of survival-1 asks for an agreement')
    expect(shown).toContain('By changing the setting below to TRUE you agree to our licence.')
    expect(shown).toContain('https://example.test/eula')
    expect(shown).toContain('You need to agree to the EULA')
    expect(shown).toContain('type accept or decline (Esc: later):')
    expect(shown).not.toContain('↑ ↓ scroll')
  })

  test.each([
    [40, 8],
    [40, 15],
    [80, 15],
    [80, 24],
    [200, 60],
  ])('fits on a terminal of %dx%d however long it is, and is scrolled', (columns, rows) => {
    for (const state of [asked(LONG), withEula(asked(LONG), { text: LONG, declined: true })]) {
      const { plain, cursor } = draw({ columns, rows, state })
      expect(plain.length).toBeLessThanOrEqual(rows - 1)
      for (const row of plain) expect(row.length).toBeLessThan(columns)
      expect(plain.join('\n')).toContain('Paragraph 1 of')
      expect(plain.join('\n')).toMatch(/rows 1 to \d+ of \d+: ↑ ↓/)
      expect(plain[cursor?.y ?? 0]).toMatch(/^ type/)
    }
    const { state } = pressed(asked(LONG), `${DOWN}${PAGE_DOWN}`)
    expect(rowsAt(80, 24, state).join('\n')).toContain('rows 12 to')
    const end = pressed(asked(LONG), PAGE_DOWN.repeat(50)).state
    expect(rowsAt(80, 24, end).join('\n')).toContain('Paragraph 60 of')
    expect(pressed(end, '\u001B[5~'.repeat(50)).state.mode).toMatchObject({ top: 0 })
  })

  test('is answered by the whole word alone, and can wait', () => {
    for (const typed of ['', 'a', 'y', 'yes', 'accept it', 'say hi']) {
      const { state, effects } = pressed(asked(), `${typed}\r`)
      expect([typed, effects, state.mode.kind]).toEqual([typed, [], 'eula'])
      expect(state.notice?.text).toContain('nothing is answered')
    }
    expect(pressed(asked(), 'accept\r').effects).toEqual([{ do: 'answerEula', accepted: true }])
    expect(pressed(asked(), ' Decline \r').effects).toEqual([{ do: 'answerEula', accepted: false }])
    const later = pressed(asked(), '\u001B').state
    expect(later.mode.kind).toBe('none')
    expect(rowsAt(80, 24, later).join('\n')).toContain('the game asks for an agreement · F7 shows it')
    expect(rowsAt(40, 8, later)[0]).toContain('the game asks')
    expect(pressed(later, F7).state.mode.kind).toBe('eula')
    expect(pressed({ ...later, focus: 'log' }, 'E').state.mode.kind).toBe('eula')
    expect(pressed(liveState(), F7).state.notice?.text).toBe('the game asks for no agreement')
  })

  test('is shown to those who may not answer, who are told so', () => {
    for (const [options, why] of [
      [{ may: false }, 'you may not answer it: that needs the permission server.start'],
      [{ readOnly: true }, 'attached with --read-only: nothing is sent'],
    ] as const) {
      const state = asked(TEXT, options)
      expect(rowsAt(80, 24, state).join('\n')).toContain('https://example.test/eula')
      expect(promptText(state, 90).text).toBe(`${why} · Esc closes`)
      const { effects, state: after } = pressed(state, 'accept\r')
      expect(effects).toEqual([])
      expect(after.notice?.text).toBe(why)
      expect(pressed(after, '\u001B').state.mode.kind).toBe('none')
    }
  })

  test('takes nothing that is being typed for the game', () => {
    const editor = { text: 'accep', cursor: 5, killed: '' }
    const typing = asked(TEXT, { before: { editor } })
    expect(typing.mode.kind).toBe('none')
    expect(pressed(typing, 't\r').effects.map(({ do: what }) => what)).not.toContain('answerEula')
    const searching = asked(TEXT, { before: { mode: { kind: 'ask', what: 'search', editor } } })
    expect(searching.mode.kind).toBe('ask')
  })

  test('closes when somebody else has answered, and says when it was declined', () => {
    expect(withEula(asked(), undefined).mode.kind).toBe('none')
    const server = { eula: { state: 'declined', text: TEXT }, effectivePermissions: ['server.read'] } as const
    expect(eulaFacts(server)).toEqual({ eula: { text: TEXT, declined: true }, mayStart: false })
    expect(eulaFacts({ eula: null, effectivePermissions: ['*'] })).toEqual({ eula: undefined, mayStart: true })
    const declined = withEula(liveState(), { text: TEXT, declined: true })
    expect(rowsAt(80, 24, declined).join('\n')).toContain('agreement declined · F7 shows it')
  })

  test('brings nothing to the terminal but text, and takes no time whatever its size', () => {
    const evil = 'a\u001B]0;stolen\u0007\u009B2J\u202Eb\u001B[31m\r\tc\n'.repeat(2000)
    const begun = performance.now()
    const { styled } = draw({ columns: 80, rows: 24, state: asked(evil), theme: themeOf('dark') })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: styles of our own may pass
    for (const row of styled) expect(row.replace(/\u001B\[[\d;]+m/g, '')).not.toMatch(/[\p{Cc}\u202E]/u)
    draw({ columns: 80, rows: 24, state: asked('x'.repeat(1_000_000)) })
    expect(performance.now() - begun).toBeLessThan(2000)
    expect(eulaRows('a b', 80)).toEqual(['a b'])
  })
})

describe('text that is broken at blanks', () => {
  test('has no row that is too wide, and loses no word', () => {
    const text = `one two ${'x'.repeat(25)} 日本日本日本 three`
    const rows = wrapWords(text, 10)
    expect(rows).toEqual(['one two', 'xxxxxxxxxx', 'xxxxxxxxxx', 'xxxxx', '日本日本日', '本 three'])
    expect(wrapWords('', 10)).toEqual([''])
  })
})

test('a screen knows no agreement before the server or its console speaks of one', () => {
  const keys = { detachKeys: readKeyNames('ctrl-]'), history: [], time: 'off', colour: true } as const
  const state = initialState({ serverName: 'a', readOnly: false, ...keys })
  expect([state.facts.eula, state.facts.mayStart]).toEqual([undefined, false])
})
