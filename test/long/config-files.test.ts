// @module-tag long
import { mkdtemp, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SerialQueue } from '../../src/agent/server/serial-queue.ts'
import { ConfigFile, type ConfigParser } from '../../src/shared/protocol/config-files.ts'
import { DIST } from '../run-panel.ts'

const MIB = 1024 * 1024
const NEAR = 63 * MIB

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'panel-large-config-'))
})
afterEach(() => rm(root, { recursive: true }))

/** What a file of nearly 64 MiB is made of: what comes first, what is repeated with a number, and what comes last. */
const PIECES: Readonly<Record<ConfigParser, readonly [head: string, piece: (n: number) => string, tail: string]>> = {
  file: ['port=1\n', (n) => `key${n} = ${'v'.repeat(50)}\n`, 'end=1\n'],
  properties: ['port=1\n', (n) => `key${n}=${'v'.repeat(50)}\n`, 'end=1\n'],
  ini: ['port=1\n[all]\n', (n) => `key${n}=${'v'.repeat(50)}\n`, '[last]\nend=1\n'],
  json: ['{"port":1,"all":[', (n) => `{"key":${n},"text":"${'v'.repeat(50)}"},`, '0],"end":1}\n'],
  toml: ['port = 1\n', (n) => `key${n} = "${'v'.repeat(50)}"\n`, 'end = 1\n'],
  yaml: ['port: 1\n', (n) => `key${n}: ${'v'.repeat(50)}\n`, 'end: 1\n'],
  xml: ['<conf><port>1</port>', (n) => `<k n="${n}">${'v'.repeat(50)}</k>\n`, '<end>1</end></conf>\n'],
}
const KEYS: Partial<Record<ConfigParser, readonly [port: string, end: string]>> = {
  file: ['port=', 'end='],
  ini: ['port', 'last.end'],
  xml: ['conf.port', 'conf.end'],
}

async function large(parser: ConfigParser, path: string): Promise<void> {
  const [head, piece, tail] = PIECES[parser]
  const file = await open(path, 'w')
  try {
    let size = head.length
    await file.write(head)
    for (let n = 0; size < NEAR; ) {
      let text = ''
      while (text.length < MIB) text += piece(n++)
      size += text.length
      await file.write(text)
    }
    await file.write(tail)
  } finally {
    await file.close()
  }
}

interface Outcome {
  readonly problem: string | undefined
  readonly ms: number
  /** The longest time in which nothing else of the agent was done. */
  readonly stalledMs: number
  readonly grownMb: number
}

async function changed(parser: ConfigParser): Promise<Outcome> {
  const [port = 'port', end = 'end'] = KEYS[parser] ?? []
  const value = (name: string, text: string) => (parser === 'file' ? `${name}=${text}` : text)
  const set = [
    { key: port, value: value('port', '{{SERVER_PORT}}') },
    { key: end, value: value('end', '{{SERVER_PORT}}') },
  ]
  const file = ConfigFile.parse({ path: 'large', parser, set })
  const { updateConfigFiles } = await import(join(DIST, 'src/agent/config-files/update.js'))
  const before = process.memoryUsage().rss
  let [most, stalledMs, last] = [before, 0, performance.now()]
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss)
    stalledMs = Math.max(stalledMs, performance.now() - last)
    last = performance.now()
  }, 10)
  const begun = performance.now()
  const options = { known: { SERVER_PORT: '25577' }, roomBytes: 1e9, nowMs: 0, threads: new SerialQueue() }
  const problem = await updateConfigFiles(root, [file], options).then(
    () => undefined,
    (error: unknown) => String(error),
  )
  clearInterval(timer)
  return { problem, ms: performance.now() - begun, stalledMs, grownMb: (most - before) / MIB }
}

describe('a configuration file of nearly 64 MiB', () => {
  it.each(['file', 'properties', 'ini', 'json'] as const)('is brought up to date, in bounds: %s', async (parser) => {
    const path = join(root, 'large')
    await large(parser, path)
    const before = await stat(path)
    const outcome = await changed(parser)
    expect(outcome.problem).toBeUndefined()
    const after = await readFile(path, 'utf8')
    expect(after.slice(0, 40)).toContain('25577')
    expect(after.slice(-40)).toContain('25577')
    expect(Math.abs(after.length - before.size)).toBeLessThan(100)
    inBounds(outcome)
  })

  it.each(['toml', 'yaml', 'xml'] as const)(
    'is brought up to date or refused with the reason, in bounds: %s',
    async (parser) => {
      const path = join(root, 'large')
      await large(parser, path)
      const before = await stat(path)
      const outcome = await changed(parser)
      if (outcome.problem === undefined) {
        const after = await readFile(path, 'utf8')
        expect([after.slice(0, 40), after.slice(-40)].join()).toMatch(/25577.*25577/s)
      } else {
        expect(outcome.problem).toMatch(
          /The configuration file large (?:takes too long to be changed|cannot be changed: )/,
        )
        expect([(await stat(path)).ino, (await stat(path)).mtimeMs]).toEqual([before.ino, before.mtimeMs])
      }
      inBounds(outcome)
    },
  )

  it.each(['file', 'properties', 'ini', 'json', 'toml', 'yaml', 'xml'] as const)(
    'and one byte more than 64 is refused before it is read: %s',
    async (parser) => {
      await writeFile(join(root, 'large'), '')
      await truncate(join(root, 'large'), 64 * MIB + 1)
      const outcome = await changed(parser)
      expect(outcome.problem).toContain('The configuration file large is larger than 64 MiB')
      expect(outcome.ms).toBeLessThan(1000)
    },
  )
})

/** The time that a thread has, and what reading and writing add; the memory of one thread beside copies of the text. */
function inBounds({ ms, stalledMs, grownMb }: Outcome): void {
  expect(ms).toBeLessThan(40_000)
  expect(stalledMs).toBeLessThan(3000)
  expect(grownMb).toBeLessThan(2000)
}
