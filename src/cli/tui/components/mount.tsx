import { type DOMElement, render } from 'ink'
import { createRef, type ReactElement } from 'react'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { Input } from '../keys/keys.ts'
import { useKeys } from '../keys/use-keys.ts'
import { layoutOf, type Size } from '../layout.ts'
import type { Theme } from '../terminal/theme.ts'
import { ThemeContext } from './label.tsx'
import { promptText } from './prompt.tsx'
import { Screen, type ScreenProps } from './screen.tsx'

/** The screen around the log, row by row, and what is left for the log. */
export interface Chrome {
  readonly above: readonly string[]
  readonly below: readonly string[]
  readonly logWidth: number
  readonly logHeight: number
  /** Where the terminal's cursor stands, if anywhere, on the whole screen. */
  readonly cursor: { readonly x: number; readonly y: number } | undefined
}

export interface MountOptions {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly theme: Theme
  readonly clock: Clock
  readonly onInput: (input: Input) => void
  /** A component has failed. */
  readonly onError: (error: unknown) => void
}

/** The props that change from frame to frame. */
export type View = Omit<ScreenProps, 'layout' | 'log' | 'prompt'>

/** A tree of Ink whose frames come back as rows in the place of going to the terminal. */
export interface Mounted {
  /** Lays the screen out; the same view again costs nothing. */
  render(view: View): Chrome
  unmount(): void
}

/** Mounts the screen. Ink reads keys from `stdin`; nothing is written to `stdout`. */
export function mountScreen(options: MountOptions): Mounted {
  const log = createRef<DOMElement>()
  const prompt = createRef<DOMElement>()
  let frame = ''
  let size: Size = { columns: 80, rows: 24 }
  let last: { readonly view: View; readonly chrome: Chrome } | undefined
  // Ink writes each frame whole in this mode, at once.
  const stdout = capturing(options.stdout, { size: () => size, write: (text) => (frame = text) })
  const tree = render(null, { stdin: options.stdin, stdout, debug: true, exitOnCtrlC: false, patchConsole: false })
  tree.waitUntilExit().catch(options.onError)
  return {
    render: (view) => {
      if (last !== undefined && looksTheSame(last.view, view)) return last.chrome
      const layout = layoutOf(view.size)
      size = layout
      tree.rerender(<Root {...options} screen={{ ...view, layout, log, prompt }} />)
      const rows = frame.split('\n')
      const top = topOf(log.current)
      const logHeight = top === undefined ? 0 : Math.max(0, layout.rows - rows.length + 1)
      const above = top === undefined ? rows : rows.slice(0, top)
      const below = top === undefined ? [] : rows.slice(top + 1)
      const promptTop = topOf(prompt.current)
      const x = promptText(view.state, layout.columns).cursor
      const y = promptTop === undefined ? undefined : promptTop + (top === undefined ? 0 : logHeight - 1)
      const cursor = x === undefined || y === undefined ? undefined : { x, y }
      last = { view, chrome: { above, below, logWidth: layout.columns, logHeight, cursor } }
      return last.chrome
    },
    unmount: () => tree.unmount(),
  }
}

function Root({
  screen,
  theme,
  onInput,
  clock,
}: Pick<MountOptions, 'theme' | 'onInput' | 'clock'> & { readonly screen: ScreenProps }): ReactElement {
  useKeys(onInput, clock)
  return (
    <ThemeContext value={theme}>
      <Screen {...screen} />
    </ThemeContext>
  )
}

/** The terminal as Ink sees it: of the size that is drawn, and its frames go to `write`. */
function capturing(
  stdout: NodeJS.WriteStream,
  instead: { readonly size: () => Size; readonly write: (text: string) => void },
): NodeJS.WriteStream {
  const write = (text: string): boolean => {
    instead.write(text)
    return true
  }
  return new Proxy(stdout, {
    get: (target, name) => {
      if (name === 'write') return write
      if (name === 'columns' || name === 'rows') return instead.size()[name]
      if (name === 'isTTY') return false
      // The size comes with the view.
      if (name === 'on' || name === 'off') return () => undefined
      return Reflect.get(target, name)
    },
  })
}

/** The row at which Ink has put a box; `undefined` when it is not on the screen. */
function topOf(node: DOMElement | null): number | undefined {
  if (node === null) return undefined
  let top = 0
  for (let at: DOMElement | undefined = node; at !== undefined; at = at.parentNode) {
    top += at.yogaNode?.getComputedTop() ?? 0
  }
  return top
}

/** Whether two views show the same; where in the log the view begins is the pane's own matter. */
function looksTheSame(one: View, other: View): boolean {
  return (
    isShallowlyEqual(
      { ...one, state: undefined, view: undefined, size: undefined },
      { ...other, state: undefined, view: undefined, size: undefined },
    ) &&
    isShallowlyEqual(one.size, other.size) &&
    isShallowlyEqual({ ...one.view, match: undefined }, { ...other.view, match: undefined }) &&
    isShallowlyEqual(one.view.match ?? {}, other.view.match ?? {}) &&
    isShallowlyEqual({ ...one.state, anchor: undefined }, { ...other.state, anchor: undefined })
  )
}

function isShallowlyEqual(one: object, other: object): boolean {
  const entries = Object.entries(one)
  return (
    entries.length === Object.keys(other).length && entries.every(([name, value]) => Reflect.get(other, name) === value)
  )
}
