import type { ReactElement } from 'react'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { Input } from '../keys/keys.ts'
import { useKeys } from '../keys/use-keys.ts'
import { layoutOf, type Size } from '../layout.ts'
import type { ConsoleState } from '../model/model.ts'
import { Dialog } from './dialogs.tsx'
import { Fields, type FieldsProps } from './fields.tsx'
import { headerFields, lifeField, linkField } from './header.ts'
import { Help } from './help.tsx'
import { hintFields } from './hints.ts'
import { Label } from './label.tsx'
import { Meters, metered } from './meters.tsx'
import { Prompt, promptText, promptWidth } from './prompt.tsx'
import { mountRegion, type Region, type RegionOptions } from './region.tsx'
import { messageField, statusFields, type ViewFacts, viewFields } from './status-line.ts'

/** Everything that the screen shows but the lines. */
export interface View {
  readonly state: ConsoleState
  readonly view: ViewFacts
  readonly nodeName: string
  readonly address: string
  readonly contextName: string
  readonly size: Size
}

/** The screen around the log, row by row, and what is left for the log. */
export interface Chrome {
  readonly above: readonly string[]
  readonly below: readonly string[]
  readonly logWidth: number
  readonly logHeight: number
  /** Where the terminal's cursor stands, if anywhere, on the whole screen. */
  readonly cursor: { readonly x: number; readonly y: number } | undefined
}

export interface ScreenOptions extends RegionOptions {
  readonly clock: Clock
  readonly onInput: (input: Input) => void
}

/** The console screen: regions of Ink one below the other, and a place for the log between them. */
export interface Screen {
  /** Lays out what has changed. */
  render(view: View): Chrome
  unmount(): void
}

/** Mounts the screen. Ink reads keys from `stdin`; nothing is written to `stdout`. */
export function mountScreen(options: ScreenOptions): Screen {
  const regions = new Map<string, Region>()
  // A region is mounted when something is to stand in it for the first time.
  const draw: Draw = (name, element, width) => {
    const region = regions.get(name) ?? mountRegion(options)
    regions.set(name, region)
    return region.rows(element, width)
  }
  draw('keys', <Keys onInput={options.onInput} clock={options.clock} />, 1)
  return {
    render: (view) => stack(view, draw),
    unmount: () => {
      for (const region of regions.values()) region.unmount()
    },
  }
}

/** The rows of a component in the region of that name. */
type Draw = (name: string, element: ReactElement, width: number) => readonly string[]

function stack(screen: View, draw: Draw): Chrome {
  const { state, view, size, nodeName, address, contextName } = screen
  const layout = layoutOf(size)
  const { columns: width, kind } = layout
  const drawFields = (name: string, fields: FieldsProps): readonly string[] => draw(name, <Fields {...fields} />, width)
  if (kind === 'notice') {
    const above = draw('header', <Notice {...size} width={width} />, width)
    return { above, below: [], logWidth: width, logHeight: 0, cursor: undefined }
  }
  const { facts, focus, mode, readOnly, takesNoInput, serverName } = state
  const { nowMs } = view
  const narrow = kind === 'narrow'
  const wide = kind === 'wide'
  const header = narrow
    ? narrowFields(screen, width)
    : headerFields({ serverName, nodeName, address, contextName, facts, nowMs, width, wide })
  const above = [
    ...drawFields('header', header),
    ...(!narrow && layout.rows >= RULED_FROM ? drawFields('rule', { left: [], width, ruled: true }) : []),
  ]
  const prompt = promptText(state, width)
  const abovePrompt = [
    ...(mode.kind === 'power' || mode.kind === 'paste' || mode.kind === 'eula'
      ? draw(
          'dialog',
          <Dialog {...{ mode, serverName, width, eula: facts.eula }} framed={!narrow} rows={layout.rows} />,
          width,
        )
      : []),
    ...(narrow ? [] : drawFields('status', statusFields({ state, view, width, wide }))),
    ...(narrow ? [] : draw('meters', <Meters {...metered(facts)} width={width} />, width)),
  ]
  const below = [
    ...abovePrompt,
    ...draw('prompt', <Prompt {...prompt} />, promptWidth(prompt)),
    ...(narrow ? [] : drawFields('hints', hintFields({ focus, readOnly, takesNoInput, width }))),
  ]
  const room = Math.max(0, layout.rows - above.length - below.length)
  if (mode.kind === 'help') {
    const help = draw('help', <Help {...{ readOnly, width }} height={room} />, width)
    const blank = Array.from({ length: Math.max(0, room - help.length) }, () => '')
    return {
      above: [...above, ...help, ...blank, ...below],
      below: [],
      logWidth: width,
      logHeight: 0,
      cursor: undefined,
    }
  }
  const cursor =
    prompt.cursor === undefined ? undefined : { x: prompt.cursor, y: above.length + room + abovePrompt.length }
  return { above, below, logWidth: width, logHeight: room, cursor }
}

/** From so many rows on a rule under the header costs nothing that is missed. */
const RULED_FROM = 22

/** Reads the keys. */
function Keys({ onInput, clock }: Pick<ScreenOptions, 'onInput' | 'clock'>): null {
  useKeys(onInput, clock)
  return null
}

function Notice({ columns, rows, width }: Size & { readonly width: number }): ReactElement {
  return <Label text={`panel: ${columns}x${rows} is too small, 40x8 needed; ^] detaches`} room={width} />
}

/** The only row for everything: what needs to be read first stands first. */
function narrowFields({ state, view }: View, width: number): FieldsProps {
  const { serverName, facts } = state
  const message = messageField(state, view.nowMs)
  const standing = [
    ...viewFields(state, view),
    { text: serverName, tone: 'title' as const },
    lifeField(facts, view.nowMs),
  ]
  return { left: message === undefined ? standing : [message], right: [linkField(facts, view.nowMs)], width }
}
