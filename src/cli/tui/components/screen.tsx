import { Box, type DOMElement } from 'ink'
import type { ReactElement, RefObject } from 'react'
import type { Layout, Size } from '../layout.ts'
import type { ConsoleState } from '../model/model.ts'
import { Dialog } from './dialogs.tsx'
import { Fields } from './fields.tsx'
import { Header, lifeField, linkField } from './header.tsx'
import { Help } from './help.tsx'
import { Hints } from './hints.tsx'
import { Label } from './label.tsx'
import { Meters } from './meters.tsx'
import { Prompt } from './prompt.tsx'
import { messageField, StatusLine, type ViewFacts, viewFields } from './status-line.tsx'

/** Everything that the screen shows but the lines. */
export interface ScreenProps {
  readonly state: ConsoleState
  readonly view: ViewFacts
  readonly nodeName: string
  readonly contextName: string
  readonly size: Size
  readonly layout: Layout
  /** Where the log is drawn, and where one types: known once Ink has laid them out. */
  readonly log: RefObject<DOMElement | null>
  readonly prompt: RefObject<DOMElement | null>
}

/** The console screen. */
export function Screen(props: ScreenProps): ReactElement {
  const { state, layout, size } = props
  const width = layout.columns
  if (layout.kind === 'notice') {
    return <Label text={`panel: ${size.columns}x${size.rows} is too small, 40x8 needed; ^] detaches`} room={width} />
  }
  const help = state.mode.kind === 'help'
  const narrow = layout.kind === 'narrow'
  return (
    <Box flexDirection="column" width={width} {...(help ? { height: layout.rows } : {})}>
      {narrow ? <NarrowHeader {...props} /> : <WideHeader {...props} />}
      {help ? <Help readOnly={state.readOnly} width={width} /> : <LogPane place={props.log} />}
      <Dialog mode={state.mode} serverName={state.serverName} width={width} framed={!narrow} rows={layout.rows} />
      {!narrow && <StatusLine state={state} view={props.view} width={width} wide={layout.kind === 'wide'} />}
      {!narrow && <Meters facts={state.facts} width={width} />}
      <Prompt state={state} width={width} place={props.prompt} />
      {!narrow && <Hints focus={state.focus} readOnly={state.readOnly} width={width} />}
    </Box>
  )
}

/**
 * The place of the log in the tree. Ink lays out one row for it; the lines are drawn there past Ink, over as many rows as the
 * rest leaves, because Ink takes all it draws apart into cells, of which a large screen under a flood has too many.
 */
function LogPane({ place }: { readonly place: RefObject<DOMElement | null> }): ReactElement {
  return <Box ref={place} height={1} flexShrink={0} />
}

function WideHeader({ state, view, nodeName, contextName, layout }: ScreenProps): ReactElement {
  const { serverName, facts } = state
  const wide = layout.kind === 'wide'
  return (
    <>
      <Header {...{ serverName, nodeName, contextName, facts, wide }} nowMs={view.nowMs} width={layout.columns} />
      {layout.rows >= RULED_FROM && <Fields left={[]} width={layout.columns} ruled />}
    </>
  )
}

/** From so many rows on a rule under the header costs nothing that is missed. */
const RULED_FROM = 22

/** The only row for everything: what needs to be read first stands first. */
function NarrowHeader({ state, view, layout }: ScreenProps): ReactElement {
  const message = messageField(state, view.nowMs)
  const standing = viewFields(state, view)
  const left =
    message !== undefined
      ? [message]
      : [...standing, { text: state.serverName, tone: 'title' as const }, lifeField(state.facts, view.nowMs)]
  return <Fields left={left} right={[linkField(state.facts, view.nowMs)]} width={layout.columns} />
}
