import { isDeepStrictEqual } from 'node:util'
import { render } from 'ink'
import type { ReactElement } from 'react'
import type { Theme } from '../terminal/theme.ts'
import { ThemeContext } from './label.tsx'

/** Some rows of the screen, laid out by a tree of Ink of their own. */
export interface Region {
  /** The rows of a component; laid out only when its props are others than before. */
  rows(element: ReactElement, width: number): readonly string[]
  unmount(): void
}

export interface RegionOptions {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly theme: Theme
  /** A component has failed. */
  readonly onError: (error: unknown) => void
}

/**
 * A region in which nothing stands yet. Ink takes all that it draws apart into cells, with every change of one of them: so
 * what changes on its own is a tree on its own. Nothing is written to `stdout`.
 */
export function mountRegion({ stdin, stdout, theme, onError }: RegionOptions): Region {
  let frame = ''
  let width = 80
  let last: { readonly element: ReactElement; readonly width: number; readonly rows: readonly string[] } | undefined
  const instead = capturing(stdout, { columns: () => width, write: (text) => (frame = text) })
  // Ink writes each frame whole in this mode, at once.
  const tree = render(null, { stdin, stdout: instead, debug: true, exitOnCtrlC: false, patchConsole: false })
  tree.waitUntilExit().catch(onError)
  return {
    rows: (element, columns) => {
      if (last?.width === columns && looksTheSame(last.element, element)) return last.rows
      width = columns
      tree.rerender(<ThemeContext value={theme}>{element}</ThemeContext>)
      last = { element, width, rows: frame.split('\n') }
      return last.rows
    },
    unmount: () => tree.unmount(),
  }
}

function looksTheSame(one: ReactElement, other: ReactElement): boolean {
  return one.type === other.type && isDeepStrictEqual(one.props, other.props)
}

/** The terminal as Ink sees it: as wide as the region, and its frames go to `write`. */
function capturing(
  stdout: NodeJS.WriteStream,
  instead: { readonly columns: () => number; readonly write: (text: string) => void },
): NodeJS.WriteStream {
  const write = (text: string): boolean => {
    instead.write(text)
    return true
  }
  return new Proxy(stdout, {
    get: (target, name) => {
      if (name === 'write') return write
      if (name === 'columns') return instead.columns()
      if (name === 'isTTY') return false
      // The width comes with the rows.
      if (name === 'on' || name === 'off') return () => undefined
      return Reflect.get(target, name)
    },
  })
}
