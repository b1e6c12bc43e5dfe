import { Box } from 'ink'
import type { ReactElement } from 'react'
import { textWidth } from '../log/cut.ts'
import { Label } from './label.tsx'

const KEYS: readonly (readonly [keys: string, what: string, writes?: true])[] = [
  ['Ctrl-]  q', 'detach; the game keeps running'],
  ['Esc / i Enter', 'to the log keys / back to typing', true],
  ['PgUp PgDn wheel', 'scroll; at the top loads an older page'],
  ['Ctrl-U Ctrl-D', 'half a page'],
  ['g  G  f', 'top, bottom and follow, follow on/off'],
  ['/  n  N', 'search backwards (regex, smart case), older, newer'],
  ['&', 'show matching lines only (! inverts, Esc clears)'],
  ['l', 'level: all, INFO+, WARN+, ERROR'],
  ['w  ← →', 'wrap long lines, or scroll sideways: ‹ › is more'],
  ['t  c', 'times, colours'],
  ['v  y', 'select lines, copy'],
  ['M F9', 'mouse off: the terminal selects text'],
  ["m  '", 'bookmark, next bookmark'],
  ['h', 'load the gap on the screen, else an older page'],
  ['e F6', 'write all lines to a file'],
  ['p F5', 'start, stop, restart, kill', true],
  ['E F7', 'the agreement that the game asks for'],
  ['↑ ↓ Ctrl-R Tab', 'history, search in it, complete', true],
  ['Ctrl-L', 'draw again'],
  ['Ctrl-C', 'stops a paste, clears the line; twice in a second detaches'],
]

export interface HelpProps {
  readonly readOnly: boolean
  readonly width: number
  /** The most rows. */
  readonly height: number
}

/** The list of keys, in the place of the log. */
export function Help({ readOnly, width, height }: HelpProps): ReactElement {
  const shown = KEYS.filter(([, , writes]) => !(readOnly && writes))
  return (
    <Box
      flexDirection="column"
      height={Math.min(height, shown.length + 1)}
      width={width}
      paddingX={1}
      overflow="hidden"
    >
      <Label text="Keys" tone="title" />
      {shown.map(([keys, what]) => (
        <Box key={keys} gap={2} flexShrink={0}>
          <Label text={keys + ' '.repeat(16 - textWidth(keys))} tone="accent" />
          <Label text={what} room={width - 20} />
        </Box>
      ))}
    </Box>
  )
}
