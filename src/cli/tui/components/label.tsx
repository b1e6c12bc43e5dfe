import { Box, Transform } from 'ink'
import { createContext, type ReactElement, useContext } from 'react'
import { oneLine } from '../../kit/output/escape.ts'
import { paint } from '../log/ansi.ts'
import { fitText, textWidth } from '../log/cut.ts'
import { chooseTheme, type Theme, type Tone } from '../terminal/theme.ts'

/** The theme of the screen; without colours where none is given. */
export const ThemeContext = createContext<Theme>(
  chooseTheme({ name: 'none', noColor: true, colorFgBg: undefined, term: undefined, colorTerm: undefined }),
)

export interface LabelProps {
  readonly text: string
  readonly tone?: Tone
  /** The most columns; a longer text ends with `…`. */
  readonly room?: number
}

/**
 * One row of text in a tone. Ink keeps the measure of every text that it has ever laid out, which over days of numbers is a
 * leak: it gets as many spaces, and the text is put in their place.
 */
export function Label({ text, tone = 'plain', room }: LabelProps): ReactElement | null {
  const style = useContext(ThemeContext)[tone]
  // Whatever a daemon or a game has put into it, a row is one row.
  const line = oneLine(text)
  const shown = room === undefined ? line : fitText(line, room)
  if (shown === '') return null
  return (
    <Box flexShrink={0}>
      <Transform transform={() => paint([{ style, text: shown }])}>{' '.repeat(textWidth(shown))}</Transform>
    </Box>
  )
}
