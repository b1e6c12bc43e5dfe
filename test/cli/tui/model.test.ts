import { describe, expect, test } from 'vitest'
import { promptText } from '../../../src/cli/tui/components/prompt.tsx'
import { createKeyReader, type Input, readKeyNames } from '../../../src/cli/tui/keys/keys.ts'
import { press } from '../../../src/cli/tui/keys/press.ts'
import { LineIndex } from '../../../src/cli/tui/log/line-index.ts'
import { Lines } from '../../../src/cli/tui/log/lines.ts'
import { readPattern } from '../../../src/cli/tui/log/matcher.ts'
import { Ring } from '../../../src/cli/tui/log/ring.ts'
import { rowsFrom, tailRows } from '../../../src/cli/tui/log/viewport.ts'
import { linkText, NO_FACTS, withStatus, withStreamError } from '../../../src/cli/tui/model/facts.ts'
import { type ConsoleState, type Effect, initialState, type Surroundings } from '../../../src/cli/tui/model/model.ts'
import { seekMatch, settleSeek } from '../../../src/cli/tui/model/seek.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { mountedOnKeys, themeOf } from './drawn.ts'
import { inputsOf, sequencesOf } from './keys-of.ts'

function linesOf(ring: Ring): Lines {
  const lines = new Lines(ring, systemClock, themeOf('none'))
  lines.resize({ width: 79, height: 18 })
  return lines
}

/** A model with lines, pressed by the bytes of a terminal. */
function bench(count: number, text = (n: number): string => `line ${n}`, takesNoInput = false) {
  const ring = new Ring({ lines: 20_000 })
  const lines = linesOf(ring)
  const add = (from: number, to: number): void => {
    for (let n = from; n <= to; n += 1) ring.append({ seq: n, ms: 0, kind: 'stdout', text: text(n) })
  }
  add(1, count)
  let state = initialState({
    serverName: 'demo',
    readOnly: false,
    takesNoInput,
    detachKeys: readKeyNames('ctrl-]'),
    history: [],
    time: 'off',
    colour: true,
  })
  let nowMs = 0
  const effects: Effect[] = []
  const around = (): Surroundings => ({
    ring,
    pane: (of) => lines.pane(of),
    matches: lines.matches,
    exportPath: '/tmp/a.log',
    columns: 79,
    nowMs,
  })
  const take = (inputs: Input[]): void => {
    for (const input of inputs) {
      const step = press(state, input, around())
      state = step.state
      effects.push(...step.effects)
    }
  }
  return {
    add,
    effects,
    type: (bytes: string): void => take(inputsOf(bytes)),
    wait: (ms: number): void => {
      nowMs += ms
    },
    state: (): ConsoleState => state,
    shown: (): string[] => {
      const pane = lines.pane(state)
      return (state.follow ? tailRows(pane) : rowsFrom(pane, state.anchor)).map((row) => row.text)
    },
  }
}

describe('the keys', () => {
  test('scroll by pages and come back to exactly the same rows', () => {
    const b = bench(500)
    const tail = b.shown()
    b.type('\u001B[5~\u001B[5~')
    const above = b.shown()
    expect(above).not.toEqual(tail)
    b.add(501, 900)
    expect(b.shown()).toEqual(above)
    b.type('\u001B[6~')
    b.type('\u001B[5~')
    expect(b.shown()).toEqual(above)
    b.type('\u001B')
    b.type('G')
    expect(b.shown().at(-1)).toBe('line 900')
    expect(b.state().follow).toBe(true)
  })

  test('scroll through wrapped lines row by row', () => {
    const b = bench(50, (n) => `${n} `.padEnd(200, 'x'))
    b.type('\u001B')
    b.type('w')
    const tail = b.shown()
    expect(tail).toHaveLength(18)
    b.type('k')
    expect(b.shown().slice(1)).toEqual(tail.slice(0, -1))
    b.type('kkkkjjjjj')
    expect(b.shown()).toEqual(tail)
  })

  test('type into the input, edit like readline, and send', () => {
    const b = bench(1)
    b.type('say hello wrld')
    b.type('\u001Bb')
    b.type('o\u0001>\u0005!')
    expect(b.state().editor.text).toBe('>say hello owrld!')
    b.type('\u0017\u0017')
    expect(b.state().editor.text).toBe('>say ')
    b.type('\u0019')
    expect(b.state().editor.text).toBe('>say hello ')
    b.type('\r')
    expect(b.effects).toEqual([
      { do: 'send', lines: ['>say hello '] },
      { do: 'remember', text: '>say hello ' },
    ])
    expect(b.state().editor.text).toBe('')
  })

  test('do not send to a node that is away, and keep the text', () => {
    const b = bench(1)
    b.type('stop')
    const away = { ...b.state(), facts: { ...b.state().facts, nodeOfflineSinceMs: 1 } }
    const ring = new Ring({ lines: 10 })
    const lines = linesOf(ring)
    const enter: Input = { kind: 'key', name: 'enter', ctrl: false, alt: false }
    const step = press(away, enter, {
      ring,
      pane: (of) => lines.pane(of),
      matches: undefined,
      exportPath: '',
      columns: 79,
      nowMs: 0,
    })
    expect(step.effects).toEqual([])
    expect(step.state.editor.text).toBe('stop')
  })

  test('clear the line by Ctrl-C, and detach by a second one within a second only', () => {
    const b = bench(1)
    b.type('text\u0003')
    expect(b.state().editor.text).toBe('')
    b.wait(1500)
    b.type('\u0003')
    expect(b.effects).toEqual([])
    b.wait(500)
    b.type('\u0003')
    expect(b.effects).toEqual([{ do: 'detach' }])
  })

  test('never send a paste of several lines without a yes', () => {
    const b = bench(1)
    b.type('\u001B[200~one\r\ntwo\u001B[31m\rthree\u001B[201~')
    expect(b.state().mode).toEqual({ kind: 'paste', lines: ['one', 'two[31m', 'three'] })
    b.type('\r')
    expect(b.effects).toEqual([])
    b.type('\u001B[200~one\ntwo\u001B[201~y')
    expect(b.effects).toEqual([{ do: 'send', lines: ['one', 'two'] }])
  })

  test('are read by Ink from what the terminal sends, and named', async () => {
    const bytes =
      'a\u001B[5~\u001B[200~p\u001B[1mq\r\u001B[201~\u001B[1;5Dé🎉\u001BOP\u001B[15~\u007F\u001B[3~\u001B[<64;3;4M\u001B[<65;3;4M\u001Bb'
    const key = (name: string, more: { ctrl?: boolean; alt?: boolean } = {}): Input => {
      return { kind: 'key', name, ctrl: false, alt: false, ...more }
    }
    const named: Input[] = [
      key('a'),
      key('pageup'),
      { kind: 'paste', text: 'p\u001B[1mq\r' },
      key('left', { ctrl: true }),
      key('é'),
      key('🎉'),
      key('f1'),
      key('f5'),
      key('backspace'),
      key('delete'),
      { kind: 'wheel', notches: -1 },
      { kind: 'wheel', notches: 1 },
      key('b', { alt: true }),
    ]
    const seen: Input[] = []
    await new Promise<void>((done) => {
      const mounted = mountedOnKeys((input) => {
        seen.push(input)
        if (seen.length < named.length) return
        mounted.unmount()
        done()
      })
      mounted.type(bytes)
    })
    expect(seen).toEqual(named)
    expect(inputsOf(bytes)).toEqual(named)
  })

  test('that come in two pieces are one sequence, and an Escape that another key follows is none with Alt', () => {
    const read = (...pieces: string[]): Input[] => {
      const reader = createKeyReader()
      return [...pieces.flatMap((piece) => reader.push(piece)), ...reader.flush()]
    }
    const names = (inputs: Input[]): unknown[] =>
      inputs.map((input) => (input.kind === 'key' ? input.name : input.kind))
    expect(names(read('\u001B', '[A'))).toEqual(['up'])
    expect(names(read('\u001B[20', '0~text\u001B[20', '1~'))).toEqual(['paste'])
    expect(read('\u001B', 'q')).toEqual([
      { kind: 'key', name: 'esc', ctrl: false, alt: false },
      { kind: 'key', name: 'q', ctrl: false, alt: false },
    ])
    expect(names(read('\u001B', '\u001B', 'x'))).toEqual(['esc', 'esc', 'x'])
    expect(sequencesOf('\u001Bqa')).toEqual(['\u001Bq', 'a'])
  })

  test('Escape and a key in one piece are both, where the key with Alt means nothing', () => {
    const b = bench(500)
    b.type('\u001B[5~')
    b.type('\u001BG')
    expect(b.state()).toMatchObject({ focus: 'log', follow: true })
    b.type('i')
    b.type('\u001Bq')
    expect(b.effects).toEqual([{ do: 'detach' }])
  })

  test('a command that is sent while the view is paused goes to its answer', () => {
    const b = bench(500)
    b.type('\u001B[5~say hi')
    expect(b.state().follow).toBe(false)
    b.type('\r')
    expect(b.state().follow).toBe(true)
  })

  test('the wheel scrolls the log and leaves the history alone; without it the mouse is the terminal’s', () => {
    const b = bench(500)
    const tail = b.shown()
    b.type('\u001B[<64;10;10M')
    expect(b.shown().slice(3)).toEqual(tail.slice(0, -3))
    expect(b.state().editor.text).toBe('')
    b.type('\u001B[<65;10;10M')
    expect(b.shown()).toEqual(tail)
    b.type('\u001B[20~')
    expect(b.state().mouse).toBe(false)
    b.type('\u001B[20~')
    expect(b.effects).toEqual([
      { do: 'mouse', on: false },
      { do: 'mouse', on: true },
    ])
  })

  test('stop what is still being sent by Ctrl-C, which clears nothing then', () => {
    const b = bench(1)
    b.type('half')
    const sending = { ...b.state(), queued: 3 }
    const ring = new Ring({ lines: 10 })
    const lines = linesOf(ring)
    const around = {
      ring,
      pane: (of: ConsoleState) => lines.pane(of),
      matches: undefined,
      exportPath: '',
      columns: 79,
      nowMs: 0,
    }
    const step = press(sending, { kind: 'key', name: 'c', ctrl: true, alt: false }, around)
    expect(step.effects).toEqual([{ do: 'stopSending' }])
    expect(step.state.editor.text).toBe('half')
  })
})

describe('a game that takes no input', () => {
  test('is typed nothing, says why, and is given orders all the same', () => {
    const { type, effects, state } = bench(1, undefined, true)
    type('i')
    expect(state().focus).toBe('log')
    expect(promptText(state(), 80).text).toBe('(this game takes no input from its console)')
    type('\x1b[200~say hi\x1b[201~')
    expect(state().notice?.text).toBe('this game takes no input from its console')
    expect(effects).toEqual([])
    type('p')
    expect(state().mode.kind).toBe('power')
  })
})

describe('a search', () => {
  test('comes to the newest match, not to one that is found before the lines that have just come are tested', () => {
    const ring = new Ring({ lines: 100 })
    const add = (text: string): void => ring.append({ seq: ring.end + 1, ms: 0, kind: 'stdout', text })
    for (const text of ['old needle', 'hay', 'hay']) add(text)
    const index = new LineIndex(ring, (entry) => entry.text.includes('needle'))
    index.advance(1000, systemClock)
    add('new needle')
    const lines = linesOf(ring)
    const around: Surroundings = {
      ring,
      pane: (of) => lines.pane(of),
      matches: index,
      exportPath: '',
      columns: 79,
      nowMs: 0,
    }
    const start = initialState({
      serverName: 'demo',
      readOnly: true,
      detachKeys: [],
      history: [],
      time: 'off',
      colour: true,
    })
    const sought = seekMatch({ ...start, search: readPattern('needle') }, -1, around)
    expect(sought.matchAt).toBeUndefined()
    index.advance(1000, systemClock)
    expect(settleSeek(sought, around, true).matchAt).toBe(3)
  })
})

describe('a pattern', () => {
  test('ignores case until it has a capital letter', () => {
    expect(readPattern('warn|error').contains('an ERROR')).toBe(true)
    expect(readPattern('Error').contains('an ERROR')).toBe(false)
    expect(readPattern('!steve').inverse).toBe(true)
    expect(readPattern('o').ranges('foo')).toEqual([
      [1, 2],
      [2, 3],
    ])
  })

  test('is found where it is, also behind letters that have two in lower case', () => {
    expect(readPattern('x').ranges('İİ x')).toEqual([[3, 4]])
  })

  test('takes no time for what would hold up other engines', () => {
    const start = performance.now()
    readPattern('(a+)+$').contains(`${'a'.repeat(5000)}!`)
    expect(performance.now() - start).toBeLessThan(1000)
  })
})

describe('the connection indicator', () => {
  const live = { ...NO_FACTS, link: { kind: 'live' as const } }
  const timestamp = '2026-01-01T00:00:00.000Z'

  test.each([
    ['LIVE ●', live],
    ['CATCHING UP 3,200', { ...live, headSeq: 4200, seq: 1000 }],
    ['RECONNECTING in 4s (2) ↻', { ...NO_FACTS, link: { kind: 'retrying' as const, untilMs: 4000, attempt: 2 } }],
    [
      'LOCKED OUT 42s',
      withStreamError(live, { type: 'error', error: 'auth_lockout', retryAfterSeconds: 42, timestamp }, 0),
    ],
    ['AUTH EXPIRED: panel login', withStreamError(live, { type: 'error', error: 'auth_expired', timestamp }, 0)],
  ])('says %s', (text, facts) => {
    expect(linkText(facts, 0).text).toBe(text)
  })

  test('says since when the node is away, and stops when it is back', () => {
    const away = withStatus(live, 'unknown', 0)
    expect(linkText(away, 99_000).text).toMatch(/^NODE OFFLINE since \d\d:\d\d$/)
    expect(linkText(withStatus(away, 'running', 1), 0).text).toBe('LIVE ●')
  })
})
