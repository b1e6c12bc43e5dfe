import { PassThrough } from 'node:stream'
import { mountScreen, type Screen } from '../../../src/cli/tui/components/screen.tsx'
import type { Input } from '../../../src/cli/tui/keys/keys.ts'
import { Lines } from '../../../src/cli/tui/log/lines.ts'
import type { NewEntry } from '../../../src/cli/tui/log/ring.ts'
import { Ring } from '../../../src/cli/tui/log/ring.ts'
import { rowsFrom, tailRows } from '../../../src/cli/tui/log/viewport.ts'
import { type ConsoleState, initialState } from '../../../src/cli/tui/model/model.ts'
import { chooseTheme, type Theme, type ThemeName } from '../../../src/cli/tui/terminal/theme.ts'
import { type Clock, systemClock } from '../../../src/shared/kernel/time.ts'

/** A clock that stands. */
export const STILL: Clock = { nowMs: () => 1_000_000_000, monotonicMs: () => 0, sleep: async () => {} }

/** A theme by its name, on a terminal with 256 colours. */
export function themeOf(name: ThemeName): Theme {
  return chooseTheme({ name, noColor: false, colorFgBg: undefined, term: 'xterm-256color', colorTerm: undefined })
}

/** A state before the first key, of a server that runs and whose console is live. */
export function liveState(change: Partial<ConsoleState> = {}, readOnly = false): ConsoleState {
  const first = initialState({
    serverName: 'survival-1',
    readOnly,
    detachKeys: [{ name: ']', ctrl: true }],
    history: ['say hi'],
    time: 'utc',
    colour: true,
  })
  const facts = {
    ...first.facts,
    link: { kind: 'live' as const },
    status: 'running' as const,
    runningSinceMs: 1_000_000_000 - 273_600_000,
    rate: 42,
    seq: 1_204_331,
  }
  return { ...first, facts, ...change }
}

export interface DrawOptions {
  readonly columns: number
  readonly rows: number
  readonly state: ConsoleState
  readonly lines?: readonly NewEntry[]
  readonly theme?: Theme
  readonly match?: { readonly index: number; readonly count: number; readonly searching: boolean }
}

/** A whole frame: each row with its styles, and where the cursor stands. */
export interface Drawn {
  readonly styled: readonly string[]
  readonly plain: readonly string[]
  readonly cursor: { readonly x: number; readonly y: number } | undefined
}

/** Draws the screen once, as a session does. */
export function draw(options: DrawOptions): Drawn {
  const { columns, rows, state, theme = themeOf('none') } = options
  const ring = new Ring({ lines: 100 })
  for (const line of options.lines ?? []) ring.append(line)
  const lines = new Lines(ring, STILL, theme)
  const mounted = mountScreen({ ...streams(), theme, clock: STILL, onInput: () => {}, onError: raise })
  try {
    const view = { nowMs: STILL.nowMs(), end: ring.end, match: options.match, sampling: false }
    const chrome = mounted.render({
      state,
      view,
      nodeName: 'node-a',
      address: 'play.example.org:25565',
      contextName: 'prod',
      size: { columns, rows },
    })
    lines.resize({ width: chrome.logWidth, height: chrome.logHeight })
    const pane = lines.pane(state)
    const log = chrome.logHeight === 0 ? [] : state.follow ? tailRows(pane) : rowsFrom(pane, state.anchor)
    const texts = log.map(({ text }) => text)
    const blank = Array.from({ length: Math.max(0, chrome.logHeight - texts.length) }, () => '')
    const styled = [...chrome.above, ...(state.follow ? [...blank, ...texts] : [...texts, ...blank]), ...chrome.below]
    return { styled, plain: styled.map((row) => row.replace(SGR, '').trimEnd()), cursor: chrome.cursor }
  } finally {
    mounted.unmount()
  }
}

/** The tree of the screen on a terminal into which a test types. */
export function mountedOnKeys(onInput: (input: Input) => void): Screen & { type(bytes: string): void } {
  const { stdin, stdout } = streams()
  const mounted = mountScreen({ stdin, stdout, theme: themeOf('none'), clock: systemClock, onInput, onError: raise })
  const view = { nowMs: 0, end: 0, match: undefined, sampling: false }
  const size = { columns: 80, rows: 24 }
  mounted.render({
    state: liveState(),
    view,
    nodeName: 'node-a',
    address: 'play.example.org:25565',
    contextName: 'prod',
    size,
  })
  return { ...mounted, type: (bytes) => void stdin.push(bytes) }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: styles are not compared
const SGR = /\u001B\[[\d;]*m/g

/** A terminal for Ink: its keys come from the test, and nothing is written to it. */
function streams(): { readonly stdin: NodeJS.ReadStream; readonly stdout: NodeJS.WriteStream } {
  const keys = new PassThrough()
  const own: Readonly<Record<string, unknown>> = {
    isTTY: true,
    setRawMode: () => undefined,
    ref: () => undefined,
    unref: () => undefined,
  }
  const stdin = new Proxy(process.stdin, {
    get: (_, name) => {
      if (typeof name === 'string' && name in own) return own[name]
      const value: unknown = Reflect.get(keys, name)
      return typeof value === 'function' ? value.bind(keys) : value
    },
  })
  return { stdin, stdout: process.stdout }
}

function raise(error: unknown): void {
  throw error
}
