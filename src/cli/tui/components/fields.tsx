import { Box } from 'ink'
import type { ReactElement } from 'react'
import { oneLine } from '../../kit/output/escape.ts'
import { fitText, textWidth } from '../log/cut.ts'
import type { Tone } from '../terminal/theme.ts'
import { Label } from './label.tsx'

/** A few words of a row. */
export interface Field {
  readonly text: string
  readonly tone?: Tone
}

export interface FieldsProps {
  readonly left: readonly Field[]
  readonly right?: readonly Field[]
  readonly width: number
  /** Draws a rule through the row, on which the fields stand. */
  readonly ruled?: boolean
}

const GAP = 2

/** One row with fields at both ends. Those that find no room are left out from the end; the first one is cut rather than lost. */
export function Fields({ left, right = [], width, ruled = false }: FieldsProps): ReactElement {
  if (ruled && left.length + right.length === 0) return <Label text={'─'.repeat(width)} tone="rule" />
  const edge = ruled ? 2 : 1 // a dash and a space, or a space
  const room = width - 2 * edge
  const ending = thatFit(right, left.length === 0 ? room : Math.floor(room * 0.7))
  const taken = ending.length === 0 ? 0 : widthOf(ending) + GAP
  const beginning = thatFit(left, room - taken)
  const between = room - widthOf(beginning) - widthOf(ending)
  return (
    <Box width={width} height={1} overflow="hidden">
      {beginning.length > 0 && <Between width={edge} {...{ ruled }} from="start" />}
      <Row fields={beginning} />
      <Between
        width={beginning.length > 0 ? between : edge + between}
        {...{ ruled }}
        from={beginning.length > 0 ? 'middle' : 'start'}
      />
      <Row fields={ending} />
      <Between width={edge} {...{ ruled }} from="end" />
    </Box>
  )
}

/** Spaces, or a rule that keeps a column from the fields beside it. */
function Between(props: {
  readonly width: number
  readonly ruled: boolean
  readonly from: 'start' | 'middle' | 'end'
}): ReactElement | null {
  const { width, ruled, from } = props
  if (width < 1) return null
  if (!ruled) return <Box width={width} flexShrink={0} />
  const dashes = (count: number): string => '─'.repeat(Math.max(0, count))
  const text =
    from === 'start' ? `${dashes(width - 1)} ` : from === 'end' ? ` ${dashes(width - 1)}` : ` ${dashes(width - 2)} `
  return <Label text={width === 1 ? ' ' : text} tone="rule" />
}

function Row({ fields }: { readonly fields: readonly Field[] }): ReactElement | null {
  if (fields.length === 0) return null
  return (
    <Box gap={GAP} flexShrink={0}>
      {fields.map(({ text, tone = 'plain' }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a field is a place in its row
        <Label key={index} text={text} tone={tone} />
      ))}
    </Box>
  )
}

function widthOf(fields: readonly Field[]): number {
  return fields.reduce((sum, { text }, index) => sum + textWidth(oneLine(text)) + (index === 0 ? 0 : GAP), 0)
}

function thatFit(fields: readonly Field[], room: number): readonly Field[] {
  if (room < 2) return []
  let count = fields.length
  while (count > 1 && widthOf(fields.slice(0, count)) > room) count -= 1
  const [first, ...others] = fields.slice(0, count)
  return first === undefined ? [] : [{ ...first, text: fitText(oneLine(first.text), room) }, ...others]
}
