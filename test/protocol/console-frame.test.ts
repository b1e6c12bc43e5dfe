import { expect, test } from 'vitest'
import { readFrame } from '../../src/daemon/gateway/wire.ts'
import { AgentFrame } from '../../src/shared/protocol/frames.ts'

const LINE = [7, 1_700_000_000_000.5, 'stdout', 'text', 0]
const FRAME = { type: 'console', serverId: 'srv_1', epoch: 'epocha', lines: [LINE, [8, 0, 'system', '', 3]] }
/** What may stand where something else is expected; as JSON text, as infinity and -0 are only there. */
const VALUES = [
  'null',
  'true',
  '-1',
  '-0',
  '0',
  '1',
  '1.5',
  '1e999',
  '9007199254740993',
  '""',
  '"stderr"',
  '"constructor"',
  '[]',
  '{}',
  '{"length":5}',
  '"a\\nb"',
  '"a\\u0085b"',
  JSON.stringify('x'.repeat(200)),
  JSON.stringify('x'.repeat(201)),
  JSON.stringify(Array.from({ length: 5000 }, () => LINE)),
  JSON.stringify(Array.from({ length: 5001 }, () => LINE)),
]
const MARK = '@@'

test('lines are taken and refused as the schema of frames says, whatever stands where', () => {
  const taken = { yes: 0, no: 0 }
  for (const text of variants()) {
    const parsed = AgentFrame.safeParse(JSON.parse(text))
    const read = readFrame(text)
    if (parsed.success) expect(read).toEqual({ kind: 'frame', frame: parsed.data })
    else expect(read.kind).toBe(JSON.parse(text).type === 'console' ? 'broken' : read.kind)
    taken[read.kind === 'frame' ? 'yes' : 'no'] += 1
  }
  expect(taken.yes).toBeGreaterThan(30)
  expect(taken.no).toBeGreaterThan(100)
})

test('an id that would begin another line of a stream is refused', () => {
  for (const epoch of ['x\nevent: connected', 'x\r\n\r\n', '\0']) {
    expect(readFrame(JSON.stringify({ ...FRAME, epoch })).kind).toBe('broken')
    expect(readFrame(JSON.stringify({ ...FRAME, type: 'console.gap', from: 1, to: 2, epoch })).kind).toBe('broken')
  }
})

/** The frame with each value in each place, with each part left out, and with parts that nobody knows. */
function* variants(): Generator<string> {
  yield JSON.stringify(FRAME)
  yield JSON.stringify({ ...FRAME, last: 9, more: 'of a newer agent', lines: [] })
  for (const name of [...Object.keys(FRAME), 'last', 'new']) {
    yield* withEach(JSON.stringify({ ...FRAME, [name]: MARK }))
    yield JSON.stringify({ ...FRAME, [name]: undefined })
  }
  for (const [index] of LINE.entries()) {
    yield* withEach(JSON.stringify({ ...FRAME, lines: [LINE, LINE.with(index, MARK)] }))
    yield JSON.stringify({ ...FRAME, lines: [LINE.slice(0, index)] })
  }
  yield* withEach(JSON.stringify({ ...FRAME, lines: [[...LINE, MARK]] }))
  yield* withEach(JSON.stringify({ ...FRAME, lines: [LINE, MARK] }))
}

function* withEach(text: string): Generator<string> {
  for (const value of VALUES) yield text.replace(JSON.stringify(MARK), () => value)
}
