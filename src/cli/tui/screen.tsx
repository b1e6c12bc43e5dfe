import { Box, Transform, useCursor } from 'ink'
import type { ReactElement } from 'react'
import type { Frame } from './frame.ts'

/** The whole screen: header, log and footer, row by row. */
export function Screen({ frame }: { readonly frame: Frame }): ReactElement {
  const { setCursorPosition } = useCursor()
  setCursorPosition(frame.cursor)
  return (
    <Box flexDirection="column">
      <Rows rows={frame.header} />
      <Rows rows={frame.log} />
      <Rows rows={frame.footer} />
    </Box>
  )
}

function Rows({ rows }: { readonly rows: readonly string[] }): ReactElement {
  return (
    <Box flexDirection="column">
      {rows.map((text, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a row is a place on the screen, not a line of the log
        <Row key={index} text={text} />
      ))}
    </Box>
  )
}

/**
 * One row, already painted. It goes in as a transform of a fixed space, because Ink keeps the measure of every text it has
 * ever laid out, which over an endless console is a leak.
 */
function Row({ text }: { readonly text: string }): ReactElement {
  return <Transform transform={() => text}> </Transform>
}
