import { Box } from 'ink'
import type { ReactElement, ReactNode } from 'react'
import { dialogRoom, WIDEST_DIALOG } from '../layout.ts'
import { eulaRows } from '../model/eula.ts'
import type { PendingEula } from '../model/facts.ts'
import type { Mode } from '../model/model.ts'
import { Label } from './label.tsx'

export interface DialogProps {
  readonly mode: Mode
  readonly eula: PendingEula | undefined
  readonly serverName: string
  readonly width: number
  /** A frame around it; without one where there is little room. */
  readonly framed: boolean
  /** Rows of the whole screen. */
  readonly rows: number
}

/** What stands over the prompt while a question is open; nothing for questions that the prompt itself asks. */
export function Dialog({ mode, eula, serverName, width, framed, rows }: DialogProps): ReactElement | null {
  if (mode.kind === 'power') return <PowerMenu {...{ serverName, width, framed }} />
  if (mode.kind === 'paste')
    return <PastePreview lines={mode.lines} {...{ width, framed }} most={Math.min(PREVIEWED, rows - 6)} />
  if (mode.kind === 'eula' && eula !== undefined) {
    return <Agreement {...{ eula, serverName, width, framed }} top={mode.top} most={agreementRows(rows, framed)} />
  }
  return null
}

const POWER_KEYS: readonly (readonly [key: string, what: string])[] = [
  ['s', 'start'],
  ['t', 'stop'],
  ['r', 'restart'],
  ['k', 'kill'],
  ['Esc', 'cancel'],
]

/** Everything that can be asked of the server; in as many rows as it needs. */
export function PowerMenu({
  serverName,
  width,
  framed,
}: {
  readonly serverName: string
  readonly width: number
  readonly framed: boolean
}): ReactElement {
  return (
    <Panel title={`Power of ${serverName}`} {...{ width, framed }}>
      <Box flexWrap="wrap" columnGap={3}>
        {POWER_KEYS.map(([key, what]) => (
          <Box key={key} gap={1} flexShrink={0}>
            <Label text={key} tone={key === 'k' ? 'bad' : 'accent'} />
            <Label text={what} />
          </Box>
        ))}
      </Box>
    </Panel>
  )
}

const PREVIEWED = 4

/** The beginning of what a paste would send. */
export function PastePreview({
  lines,
  most,
  width,
  framed,
}: {
  readonly lines: readonly string[]
  /** How many of them. */
  readonly most: number
  readonly width: number
  readonly framed: boolean
}): ReactElement {
  const more = lines.length - most
  return (
    <Panel title={`Paste of ${lines.length} lines`} {...{ width, framed }}>
      {lines.slice(0, most).map((line, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a line is a place in the paste
        <Label key={index} text={line} tone="typed" room={dialogRoom(width)} />
      ))}
      {more > 0 && <Label text={`… and ${more} more`} tone="dim" />}
    </Panel>
  )
}

/** Rows for the text of an agreement: with its frame, the header and the rows below, a little of the log stays in sight. */
function agreementRows(rows: number, framed: boolean): number {
  return Math.max(1, Math.min(framed ? rows - 12 : rows - 5, 16))
}

/** What the game wants to be agreed to; longer texts are scrolled. */
export function Agreement(props: {
  readonly eula: PendingEula
  readonly serverName: string
  readonly top: number
  /** How many rows of its text. */
  readonly most: number
  readonly width: number
  readonly framed: boolean
}): ReactElement {
  const { eula, serverName, top, most, width, framed } = props
  const room = dialogRoom(width)
  const rows = eulaRows(eula.text, width)
  const shown = rows.slice(top, top + most)
  const place = `rows ${top + 1} to ${top + shown.length} of ${rows.length}: ↑ ↓ scroll`
  return (
    <Panel title={`The game of ${serverName} asks for an agreement`} {...{ width, framed }}>
      {shown.map((row, index) => (
        // A blank row has its height all the same.
        // biome-ignore lint/suspicious/noArrayIndexKey: a row is a place in the text
        <Label key={index} text={row === '' ? ' ' : row} room={room} />
      ))}
      {rows.length > most && <Label text={place} tone="dim" room={room} />}
      {eula.declined && <Label text="declined; it may be accepted all the same" tone="warn" room={room} />}
    </Panel>
  )
}

function Panel({
  title,
  width,
  framed,
  children,
}: {
  readonly title: string
  readonly width: number
  readonly framed: boolean
  readonly children: ReactNode
}): ReactElement {
  return (
    <Box
      flexDirection="column"
      flexShrink={0}
      width={framed ? Math.min(width, WIDEST_DIALOG) : width}
      marginLeft={framed ? 1 : 0}
      paddingX={1}
      {...(framed ? { borderStyle: 'round' as const } : {})}
    >
      <Label text={title} tone="title" room={dialogRoom(width)} />
      {children}
    </Box>
  )
}
