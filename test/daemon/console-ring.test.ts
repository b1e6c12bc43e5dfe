import { expect, test } from 'vitest'
import { batches } from '../../src/daemon/features/servers/console/batches.ts'
import { frameMaker } from '../../src/daemon/features/servers/console/frames.ts'
import { Ring } from '../../src/daemon/features/servers/console/ring.ts'
import type { ConsoleLine } from '../../src/shared/protocol/console.ts'
import { range } from './console-reader.ts'

const STRANGE = ['"', '\\', '\u0007', '\u2028', 'ä', '漢字', '🎮', '\ud800', 'data: x', '', '\\n\\n']

function line(seq: number, text = `line ${seq} ${STRANGE[seq % STRANGE.length]}`): ConsoleLine {
  return [seq, 1_700_000_000_000 + seq, seq % 3 === 0 ? 'stderr' : 'stdout', text, seq % 4]
}

/** Puts lines into the ring at a moment, in one batch for each `step`. */
function fill(
  ring: Ring,
  seqs: readonly number[],
  atMs = 0,
  { step = 7, text }: { step?: number; text?: string } = {},
) {
  for (let i = 0; i < seqs.length; i += step) {
    const lines = seqs.slice(i, i + step).map((seq) => line(seq, text))
    for (const batch of batches(lines, frameMaker('srv_1', 'epocha'))) ring.append(batch, atMs)
  }
}

/** The numbers of the frames, which have to be whole. */
function seqsOf(bytes: Buffer | undefined): number[] {
  const frames = (bytes?.toString() ?? '').split('\n\n')
  expect(frames.pop()).toBe('')
  return frames.map((frame) => {
    const [id, event, data, ...more] = frame.split('\n')
    expect([event, more]).toEqual(['event: console', []])
    const { seq } = JSON.parse(String(data).slice('data: '.length))
    expect(id).toBe(`id: epocha-${seq}`)
    return seq
  })
}

test('gives the frames after each line, whole and up to what is wanted', () => {
  const ring = new Ring()
  fill(ring, range(1, 60))
  for (const seq of range(0, 59)) {
    for (const most of [1, 300, 700, 3000, 1_000_000]) {
      const page = ring.after(seq, most)
      expect(seqsOf(page?.bytes)).toEqual(range(seq + 1, page?.to ?? 0))
      expect(page?.to).toBeGreaterThan(seq)
      if ((page?.to ?? 0) > seq + 1) expect(page?.bytes.length).toBeLessThanOrEqual(most)
    }
    expect(ring.after(seq, 1_000_000)?.to).toBe(60)
  }
  expect(ring.after(60, 1_000_000)).toBeUndefined()
})

test('gives a whole batch as the piece that others are sent as well', () => {
  const ring = new Ring()
  fill(ring, range(1, 14))
  const page = ring.after(7, 2000)
  expect(page?.shared?.bytes).toBe(page?.bytes)
  expect(seqsOf(page?.bytes)).toEqual(range(8, 14))
  expect(ring.after(8, 2000)?.shared).toBeUndefined()
})

test('gives back its lines as they were said, whatever is in them', () => {
  const ring = new Ring()
  fill(ring, range(1, 60))
  expect(ring.lines()).toEqual(range(1, 60).map((seq) => line(seq)))
})

test('lets go of lines beyond 2,000 when they are older than 1.5 s, and keeps what a flood has said since', () => {
  const ring = new Ring()
  fill(ring, range(1, 1000), 0, { step: 100 })
  fill(ring, range(1001, 20_000), 1000, { step: 100 })
  expect(ring.first).toBe(1)
  fill(ring, range(20_001, 20_100), 1501, { step: 100 })
  expect(ring.first).toBe(1001)
  expect(seqsOf(ring.after(1000, 1)?.bytes)).toEqual([1001])
  expect(ring.after(999, 1)).toBeUndefined()
  fill(ring, range(20_101, 20_200), 10_000, { step: 100 })
  expect(ring.first).toBe(18_201)
})

test('holds no more than 16 MiB, however young, and never less than the newest batch', () => {
  const ring = new Ring()
  fill(ring, range(1, 3000), 0, { step: 1, text: 'x'.repeat(16_000) })
  expect(ring.bytes).toBeLessThanOrEqual(16 * 1024 * 1024)
  expect(ring.bytes).toBeGreaterThan(15 * 1024 * 1024)
  expect(seqsOf(ring.after(2999, 1)?.bytes)).toEqual([3000])
  fill(ring, [3001], 60_000, { text: 'x'.repeat(900_000) })
  expect(ring.first).toBeGreaterThan(2900)
  expect(seqsOf(ring.after(3000, 1)?.bytes)).toEqual([3001])
})
