// @module-tag long
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { EventSource } from 'eventsource'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sendCommand } from '../../src/shared/api/console.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { SplitPanel } from './split-panel.ts'
import { framesOf } from './sse.ts'
import { until } from './wait.ts'

/** Prints a numbered line for each `next`, and a row of them for `many N`. */
const GAME = `
n=0
say() { n=$((n + 1)); echo "line $n"; }
echo ready
while read -r word count; do
  if [ "$word" = many ]; then i=0; while [ $i -lt "$count" ]; do say; i=$((i + 1)); done; else say; fi
done
`

interface Line {
  readonly id: string
  readonly text: string
}

let panel: SplitPanel
let game: Server

beforeAll(async () => {
  panel = await SplitPanel.enter()
  game = await panel.makeServer('talker', await panel.makeTemplate('talker', GAME), { start: true })
})

afterAll(async () => {
  await panel.leave()
})

const consoleUrl = (lines: number) => `${panel.url}/api/servers/${game.id}/console/stream?lines=${lines}`

async function type(command: string): Promise<void> {
  await panel.client.call(sendCommand, { params: { serverId: game.id }, body: { command } })
}

let printed = 0
/** Has the game print so many more lines; answers the text of the last one. */
async function print(count: number): Promise<string> {
  await type(`many ${count}`)
  printed += count
  return `line ${printed}`
}

const numbered = (lines: readonly Line[]) => lines.filter(({ text }) => /^line \d+$/.test(text))
const texts = (lines: readonly Line[]) => numbered(lines).map(({ text }) => text)
const expected = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, i) => `line ${first + i}`)

/** `curl -N` on the console, with what it has read so far. */
class Curl {
  readonly #child: ChildProcessWithoutNullStreams
  #text = ''

  constructor(lines: number, lastEventId?: string) {
    const resume = lastEventId === undefined ? [] : ['-H', `Last-Event-ID: ${lastEventId}`]
    this.#child = spawn('curl', ['-sSN', '--fail', '-K', '-', ...resume, consoleUrl(lines)])
    this.#child.stdin.end(`header = "Authorization: Bearer ${panel.token}"\n`)
    this.#child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      this.#text += chunk
    })
  }

  get text(): string {
    return this.#text
  }

  get lines(): Line[] {
    return framesOf(this.#text).flatMap(({ id, data }) => lineOf(id, data))
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill()
    await once(this.#child, 'exit')
  }
}

function lineOf(id: string, data: string): Line[] {
  const fields: { line?: unknown; type?: unknown } = JSON.parse(data)
  return typeof fields.line === 'string' ? [{ id, text: fields.line }] : []
}

/** The npm client on the console; it reconnects and resumes by itself. */
function follow(lines: number): { readonly lines: Line[]; readonly opened: () => number; close(): void } {
  const seen: Line[] = []
  let opened = 0
  const source = new EventSource(consoleUrl(lines), {
    fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${panel.token}` } }),
  })
  source.addEventListener('open', () => {
    opened += 1
  })
  const take = (event: MessageEvent) => seen.push(...lineOf(event.lastEventId, String(event.data)))
  source.addEventListener('console', take)
  return { lines: seen, opened: () => opened, close: () => source.close() }
}

describe('the console by other clients', () => {
  it('is followed by curl and by the npm client at once, line for line', async () => {
    const curl = new Curl(0)
    const source = follow(0)
    try {
      await until('both are connected', async () => source.opened() === 1 && curl.text.startsWith(': connected'))
      const last = await print(200)
      await until('curl has all', async () => texts(curl.lines).at(-1) === last)
      await until('the npm client has all', async () => texts(source.lines).at(-1) === last)
      expect(texts(curl.lines)).toEqual(expected(1, 200))
      expect(source.lines).toEqual(curl.lines)
      expect(new Set(curl.lines.map(({ id }) => id)).size).toBe(curl.lines.length)
    } finally {
      await curl.close()
      source.close()
    }
  })

  it('is resumed by curl at a Last-Event-ID, without a gap and without a line twice', async () => {
    const first = new Curl(10)
    await until('the last line', async () => texts(first.lines).at(-1) === `line ${printed}`)
    await first.close()
    const seen = numbered(first.lines)
    const from = printed
    await print(300)
    const second = new Curl(0, seen.at(-1)?.id)
    try {
      await until('what was missed', async () => texts(second.lines).at(-1) === `line ${printed}`)
      const last = await print(3)
      await until('what is new', async () => texts(second.lines).at(-1) === last)
      expect(texts(second.lines)).toEqual(expected(from + 1, printed))
    } finally {
      await second.close()
    }
  })

  it.each(['daemon', 'agent'] as const)('is resumed by the npm client over a kill of the %s', async (who) => {
    const source = follow(0)
    const from = printed
    try {
      await until('it is connected', async () => source.opened() === 1)
      const before = await print(50)
      await until('the first lines', async () => texts(source.lines).at(-1) === before)
      await (who === 'daemon' ? panel.killDaemon() : panel.killAgent())
      await (who === 'daemon' ? panel.startDaemon() : panel.startAgent())
      await panel.online()
      await panel.serverWhen(game.id, 'running', ({ status }) => status === 'running')
      const last = await print(50)
      await until('the last line', async () => texts(source.lines).at(-1) === last)
      expect(texts(source.lines)).toEqual(expected(from + 1, printed))
    } finally {
      source.close()
    }
  })

  it('has no gap for a follower while the game prints much', async () => {
    const [curl, source] = [new Curl(0), follow(0)]
    const from = printed
    try {
      await until('both are connected', async () => source.opened() === 1 && curl.text.startsWith(': connected'))
      const last = await print(20_000)
      await until('curl has all', async () => curl.text.includes(`"${last}"`), 40_000)
      await until('the npm client has all', async () => texts(source.lines.slice(-3)).at(-1) === last, 40_000)
      expect(texts(curl.lines)).toEqual(expected(from + 1, printed))
      expect(texts(source.lines)).toEqual(expected(from + 1, printed))
    } finally {
      await curl.close()
      source.close()
    }
  })
})
