import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ConsoleTail } from '../../../src/agent/console/log/console-tail.ts'
import { LineSplitter } from '../../../src/agent/console/log/line-splitter.ts'
import { LogReader } from '../../../src/agent/console/log/reader.ts'
import { MAX_LINE_BYTES, PARTIAL } from '../../../src/agent/console/log/record.ts'
import { LogWriter } from '../../../src/agent/console/log/writer.ts'
import { takeLock } from '../../../src/shared/platform/file-lock.ts'
import { LINE_PARTIAL } from '../../../src/shared/protocol/console.ts'

const EPOCH = '01m7xx6ek1en6tsgjgjz0f5x8t'
const OTHER = '01m7xx6ek1en6tsgjgjz0f5x9z'
const ALL = { maxLines: 1_000_000, maxBytes: 1_000_000_000 }

let dir: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'panel-log-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

function open(logMb = 1, newEpoch = EPOCH): LogWriter {
  return new LogWriter({ dir, logMb, newEpoch })
}

function put(writer: LogWriter, ...lines: (string | Buffer)[]): void {
  for (const line of lines)
    writer.append({ stream: 'stdout', ms: 1_700_000_000_000, text: Buffer.from(line), flags: 0 })
  writer.flush()
}

function newest(): string {
  const segments = readdirSync(dir).filter((name) => name.endsWith('.log'))
  return join(dir, segments.sort().at(-1) ?? '')
}

describe('the log', () => {
  it('goes on with its numbers and its epoch after it was closed', async () => {
    const first = open()
    put(first, 'one', 'two')
    first.close()
    const second = open(1, OTHER)
    put(second, 'three')
    expect([second.epoch, second.last]).toEqual([EPOCH, 3])
    const { lines, ...bounds } = await new LogReader(dir).readAfter(0, ALL)
    expect(bounds).toEqual({ epoch: EPOCH, first: 1, last: 3, gap: null })
    expect(lines.map((line) => line[3])).toEqual(['one', 'two', 'three'])
    second.close()
  })

  it('cuts a torn record at whatever byte it was torn, goes on under another epoch, and says so', async () => {
    const writer = open()
    put(writer, 'kept')
    const whole = statSync(newest()).size
    put(writer, 'torn line')
    writer.close()
    const torn = readFileSync(newest())
    const [name] = readdirSync(dir).filter((entry) => entry.endsWith('.log'))
    for (let size = torn.length - 1; size > whole; size--) {
      for (const entry of readdirSync(dir)) if (entry.endsWith('.log')) rmSync(join(dir, entry))
      writeFileSync(join(dir, name ?? ''), torn.subarray(0, size))
      const again = open(1, OTHER)
      expect([again.last, again.epoch === EPOCH, again.epoch === OTHER]).toEqual([1, false, false])
      put(again, 'next')
      again.close()
      const { lines, ...bounds } = await new LogReader(dir).readBefore(99, ALL)
      expect(lines.map((line) => [line[0], line[2], line[3]])).toEqual([
        [1, 'stdout', 'kept'],
        [2, 'system', 'The console log was damaged; lines may be missing here'],
        [3, 'stdout', 'next'],
      ])
      const epochs = [
        { epoch: EPOCH, first: 1 },
        { epoch: again.epoch, first: 2 },
      ]
      expect(bounds).toEqual({ epoch: again.epoch, first: 1, last: 3, epochs, gap: null })
    }
  })

  it('is not misled by what a power cut leaves', async () => {
    const writer = open()
    put(writer, 'kept')
    writer.close()
    appendFileSync(newest(), Buffer.alloc(4096))
    expect(await new LogReader(dir).bounds()).toMatchObject({ last: 1 })
    const again = open()
    put(again, 'next')
    again.close()
    const reader = new LogReader(dir)
    expect((await reader.readAfter(1, ALL)).lines.map((line) => line[3])).toEqual([
      'The console log was damaged; lines may be missing here',
      'next',
    ])
    expect([reader.epochOf(1), reader.epochOf(2)]).toEqual([EPOCH, again.epoch])
  })

  it('takes another epoch after a restart of the machine, and where a known line is not there', async () => {
    const writer = open()
    put(writer, 'one', 'two')
    writer.close()
    const same = open()
    expect(same.epoch).toBe(EPOCH)
    same.close()
    writeFileSync(join(dir, 'boot'), 'an earlier boot')
    const rebooted = open()
    put(rebooted, 'three')
    rebooted.close()
    expect((await new LogReader(dir).readAfter(2, ALL)).lines.map((line) => line[3])).toEqual([
      'The machine was restarted; the last lines before that may be missing here',
      'three',
    ])
    // The disk has forgotten whole lines without a trace, but somebody knows better.
    const known = new LogWriter({ dir, logMb: 1, newEpoch: OTHER, written: 4 })
    expect([known.epoch, known.last]).toEqual([rebooted.epoch, 4])
    known.close()
    const cut = new LogWriter({ dir, logMb: 1, newEpoch: OTHER, written: 5 })
    expect(cut.epoch).not.toBe(rebooted.epoch)
    cut.close()
  })

  it('keeps the lines of a segment whose head is damaged, and all others', async () => {
    const writer = open(1)
    put(writer, ...Array.from({ length: 4000 }, (_, i) => `l${i + 1} ${'y'.repeat(60)}`))
    writer.close()
    const bytes = readFileSync(newest())
    writeFileSync(newest(), Buffer.concat([Buffer.alloc(32), bytes.subarray(32)]))
    const again = open(1, OTHER)
    expect(again.last).toBe(4000)
    put(again, 'next')
    again.close()
    const { lines, first, last } = await new LogReader(dir).readBefore(9999, ALL)
    expect([first, last]).toEqual([1, 4002])
    expect(lines.map((line) => line[0])).toEqual(Array.from({ length: 4002 }, (_, i) => i + 1))
    writeFileSync(newest(), 'all of it')
    const third = open(1)
    expect(third.last).toBe(4000)
    third.close()
  })

  it('keeps its size, and tells precisely what it no longer has', async () => {
    const writer = open(1)
    const reader = new LogReader(dir)
    for (let i = 1; i <= 40_000; i++) put(writer, `line ${i} ${'x'.repeat(80)}`)
    writer.close()
    const size = readdirSync(dir).reduce((sum, name) => sum + statSync(join(dir, name)).size, 0)
    expect(size).toBeLessThanOrEqual(1024 * 1024)
    expect(size).toBeGreaterThan(800 * 1024)
    const { first, last } = await reader.bounds()
    expect(last).toBe(40_000)
    expect(first).toBeGreaterThan(1)
    const read = await reader.readAfter(5, { maxLines: 10, maxBytes: 1_000_000 })
    expect(read.gap).toEqual({ from: 6, to: first - 1 })
    expect(read.lines.map((line) => line[0])).toEqual(Array.from({ length: 10 }, (_, i) => first + i))
    const everything = await reader.readAfter(0, ALL)
    expect(everything.lines.length).toBe(last - first + 1)
    expect(
      everything.lines.findIndex((line, i) => line[0] !== first + i || !line[3].startsWith(`line ${first + i} `)),
    ).toBe(-1)
    const again = open(1)
    expect(again.last).toBe(40_000)
    again.close()
  })

  it('gives the newest lines before a number, oldest first, within the limits', async () => {
    const writer = open()
    put(writer, ...Array.from({ length: 12_000 }, (_, i) => `l${i + 1} ${'y'.repeat(60)}`))
    writer.close()
    const reader = new LogReader(dir)
    const { first } = await reader.bounds()
    const numbers = async (before: number, maxLines: number, maxBytes: number): Promise<number[]> =>
      (await reader.readBefore(before, { maxLines, maxBytes })).lines.map((line) => line[0])
    expect(await numbers(11_001, 3, 1e6)).toEqual([10_998, 10_999, 11_000])
    expect(await numbers(99_999, 2, 1e6)).toEqual([11_999, 12_000])
    expect(await numbers(first + 1, 10, 1e6)).toEqual([first])
    expect(await numbers(first, 10, 1e6)).toEqual([])
    expect(await numbers(11_001, 100, 140)).toEqual([10_999, 11_000])
    expect(await numbers(11_001, 100, 1)).toEqual([11_000])
    const many = await numbers(12_001, 5000, 1e6)
    expect(many).toEqual(Array.from({ length: 5000 }, (_, i) => 7001 + i))
  })

  it('gives each line once, by pages of any size, to who follows a writer and to who comes later', async () => {
    const writer = open()
    const [follower, other] = [new LogReader(dir), new LogReader(dir)]
    const read: string[] = []
    for (let round = 0; round < 400; round++) {
      put(writer, ...Array.from({ length: round % 40 }, (_, i) => `${round}.${i} ${'x'.repeat((round * 7) % 90)}`))
      // Whether it has looked before is all the same: the next page begins behind the last one.
      if (round % 3 === 0) await follower.bounds()
      const limit = { maxLines: 1 + (round % 50), maxBytes: 1 + ((round * 97) % 4000) }
      const { lines, gap } = await follower.readAfter(read.length, limit)
      expect(gap).toBeNull()
      expect(lines.length).toBeLessThanOrEqual(limit.maxLines)
      const bytes = lines.reduce((sum, [, , , text]) => sum + text.length, 0)
      if (lines.length > 1) expect(bytes).toBeLessThanOrEqual(limit.maxBytes)
      expect(lines.map(([seq]) => seq)).toEqual(lines.map((_, i) => read.length + i + 1))
      read.push(...lines.map(([, , , text]) => text))
    }
    expect(readdirSync(dir).filter((name) => name.endsWith('.log')).length).toBeGreaterThan(1)
    read.push(...(await follower.readAfter(read.length, ALL)).lines.map(([, , , text]) => text))
    expect(read).toEqual((await other.readAfter(0, ALL)).lines.map(([, , , text]) => text))
    expect(read).toHaveLength(writer.last)
    writer.close()
  })

  it('can be tailed while it is written and rotated', async () => {
    const writer = open(1)
    const tail = new ConsoleTail(dir)
    const stop = new AbortController()
    let written = 0
    const writing = (async () => {
      while (written < 20_000) {
        put(writer, ...Array.from({ length: 100 }, () => `n${++written} ${'z'.repeat(20)}`))
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    let after = 0
    while (after < 20_000) {
      await tail.waitAfter(after, undefined, stop.signal)
      for (const line of await tail.after(after, { lines: 500, bytes: 100_000 })) {
        expect(line[3].startsWith(`n${line[0]} `)).toBe(true)
        expect(line[0]).toBeGreaterThan(after)
        after = line[0]
      }
    }
    await writing
    writer.close()
    const waiting = tail.waitAfter(20_000, undefined, stop.signal)
    stop.abort()
    await waiting
  })

  it('begins another epoch when it was removed', async () => {
    const reader = new LogReader(dir)
    expect(await reader.bounds()).toEqual({ epoch: '', first: 1, last: 0 })
    const writer = open()
    put(writer, 'a', 'b')
    writer.close()
    expect(await reader.bounds()).toEqual({ epoch: EPOCH, first: 1, last: 2 })
    rmSync(dir, { recursive: true })
    const next = open(1, OTHER)
    expect(await reader.bounds()).toEqual({ epoch: OTHER, first: 1, last: 0 })
    next.close()
  })

  it('shows text without control characters but TAB and ESC, and with replacement for what is no UTF-8', async () => {
    const writer = open()
    put(writer, Buffer.from([0, 1, 9, 27, 0x41, 0xff, 0xc3, 0xa9, 0x0b, 0x80]))
    writer.close()
    expect((await new LogReader(dir).readAfter(0, ALL)).lines[0]?.[3]).toBe('\t\u001bA\ufffdé\ufffd')
  })

  it('has one writer: the lock ends with its holder and not before', async () => {
    const path = join(dir, 'lock')
    const lock = await takeLock(path, 0)
    expect(lock).toBeDefined()
    expect(await takeLock(path, 0)).toBeUndefined()
    await lock?.close()
    const next = await takeLock(path, 0)
    expect(next).toBeDefined()
    await next?.close()
  })

  it('uses the flag of the protocol', () => {
    expect(PARTIAL).toBe(LINE_PARTIAL)
  })
})

describe('cutting into lines', () => {
  function cut(chunks: readonly Buffer[], end = true): [string, boolean][] {
    const pieces: [string, boolean][] = []
    const splitter = new LineSplitter((bytes, partial) => pieces.push([bytes.toString('latin1'), partial]))
    for (const chunk of chunks) splitter.push(chunk)
    if (end) splitter.end()
    return pieces
  }

  it('ends a line at LF, CR LF and a lone CR, also between two chunks', () => {
    const lines = ['a', 'b', '', 'c', 'd', 'e'].map((text) => [text, false])
    const text = 'a\nb\r\n\nc\rd\r\ne'
    expect(cut([Buffer.from(text)])).toEqual(lines)
    expect(cut([...text].map((char) => Buffer.from(char)))).toEqual(lines)
  })

  it('gives the same lines however the bytes are cut into chunks', () => {
    const byte = fc.oneof(fc.constantFrom(10, 13, 0, 0xff, 0xc3, 0xe2), fc.nat(255))
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 12 }),
        fc.array(byte, { maxLength: 200 }),
        (parts, tail) => {
          const chunks = [...parts.map((part) => Buffer.from(part)), Buffer.from(tail)]
          expect(cut(chunks)).toEqual(cut([Buffer.concat(chunks)]))
        },
      ),
    )
  })

  it('cuts an endless line into pieces and never within a character', () => {
    const text = `a${'é'.repeat(20_000)}`
    const pieces = cut([Buffer.from(text), Buffer.from('\nnext')])
    expect(pieces.map((piece) => piece[1])).toEqual([true, true, false, false])
    expect(pieces.every((piece) => piece[0].length <= MAX_LINE_BYTES)).toBe(true)
    expect(
      pieces
        .slice(0, 3)
        .map((piece) => Buffer.from(piece[0], 'latin1').toString('utf8'))
        .join(''),
    ).toBe(text)
    expect(
      pieces.slice(0, 3).some((piece) => Buffer.from(piece[0], 'latin1').toString('utf8').includes('\ufffd')),
    ).toBe(false)
  })

  it('gives waiting text away as partial, and its end under the next number', () => {
    const pieces: [string, boolean][] = []
    const splitter = new LineSplitter((bytes, partial) => pieces.push([bytes.toString(), partial]))
    splitter.push(Buffer.concat([Buffer.from('> '), Buffer.from('é').subarray(0, 1)]))
    splitter.flush()
    expect([...pieces, splitter.pending]).toEqual([['> ', true], true])
    splitter.push(Buffer.concat([Buffer.from('é').subarray(1), Buffer.from('\n')]))
    splitter.flush()
    expect(pieces).toEqual([
      ['> ', true],
      ['é', false],
    ])
  })
})
