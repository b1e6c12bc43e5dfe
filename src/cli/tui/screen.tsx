import { Box, renderToString, Transform } from 'ink'
import type { ReactElement } from 'react'
import type { Frame } from './frame.ts'

/** The rows above and below the log as Ink lays them out: as many as the frame has of them, one string each. */
export function layOut({ header, footer }: Pick<Frame, 'header' | 'footer'>, columns: number): readonly string[] {
  return renderToString(<Bars rows={[...header, ...footer]} />, { columns }).split('\n')
}

function Bars({ rows }: { readonly rows: readonly string[] }): ReactElement {
  return (
    <Box flexDirection="column">
      {rows.map((text, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a row is a place on the screen
        <Row key={index} text={text} />
      ))}
    </Box>
  )
}

/**
 * One row, already styled. It goes in as a transform of a fixed space, because Ink keeps the measure of every text it has
 * ever laid out, which over an endless console is a leak.
 */
function Row({ text }: { readonly text: string }): ReactElement {
  return <Transform transform={() => text}> </Transform>
}
