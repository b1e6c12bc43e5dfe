import { afterAll, beforeAll, expect, test } from 'vitest'
import { getLogs, sendCommand } from '../../src/shared/api/console.ts'
import { getNode } from '../../src/shared/api/nodes.ts'
import { killServer, startServer } from '../../src/shared/api/power.ts'
import { createServer, getServer, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { ConsoleReader, range } from './console-reader.ts'

const GAME = `echo ready
while read -r line; do
  case "$line" in
    flood) i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done ;;
    roar) i=0; while [ $i -lt 20000 ]; do echo "line $i of many that are as long as this one, so that it takes half a minute to pass them on at the least rate"; i=$((i+1)); done ;;
    *) echo "got $line" ;;
  esac
done`

let panel: TestPanel
let game: Server
beforeAll(async () => {
  panel = await startPanel({ agent: true })
  const { client, nodeId, locationId } = panel
  const done = [{ kind: 'contains' as const, value: 'ready' }]
  const template = await client.call(createTemplate, {
    body: { name: 'Talker', startup: GAME, startupDetection: { done, stripAnsi: false } },
  })
  const sizes = { allocatedMemoryMb: 128, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
  const place = {
    nodeId: nodeId as never,
    locationId: locationId as never,
    templateId: template.id,
    primaryPort: 29_417,
  }
  game = await client.call(createServer, { body: { name: 'talker', ...sizes, ...place } })
  await status((now) => now === 'stopped')
  await eventually(async () => (await client.call(getNode, { params: { nodeId: nodeId as never } })).isOnline)
  await client.call(startServer, { params: { serverId: game.id }, body: {} })
  await status((now) => now === 'running')
})
afterAll(async () => {
  await panel.client.call(killServer, { params: { serverId: game.id }, body: {} })
  await status((now) => now === 'stopped')
  await panel.close()
})

async function eventually(look: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000
  while (!(await look())) {
    if (performance.now() > deadline) throw new Error(`waited in vain\n${panel.log().slice(-3000)}`)
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
}

async function status(wanted: (status: string) => boolean): Promise<void> {
  const deadline = performance.now() + 20_000
  for (;;) {
    const server = await panel.client.call(getServer, { params: { serverId: game.id } })
    if (wanted(server.status)) return
    if (performance.now() > deadline)
      throw new Error(`the server stays ${server.status}: ${server.reason}\n${panel.log().slice(-3000)}`)
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
}

const url = () => `${panel.url}/api/servers/${game.id}/console/stream`
const type = (command: string) => panel.client.call(sendCommand, { params: { serverId: game.id }, body: { command } })

test('a typed line comes back from the game with what it says to it', async () => {
  const reader = new ConsoleReader(url(), panel.adminToken)
  await reader.until('the greeting', (r) => r.of('connected')[0])
  await type('hello')
  await reader.until('the answer', (r) => r.of('console').some(({ data }) => data['line'] === 'got hello'))
  const typed = reader.of('console').find(({ data }) => data['stream'] === 'stdin')
  expect(typed?.data['line']).toBe('hello')
  reader.close()
})

test('a flood reaches a reader and one who was cut off in it without a hole', async () => {
  const steady = new ConsoleReader(`${url()}?lines=0`, panel.adminToken)
  const cut = new ConsoleReader(`${url()}?lines=0`, panel.adminToken)
  const { data } = await steady.until('the greeting', (r) => r.of('connected')[0])
  await cut.until('the greeting', (r) => r.of('connected')[0])
  const first = Number(data['lastSeq']) + 1
  await type('flood')
  await cut.until('a part of it', ({ seqs }) => seqs.length > 2000)
  cut.close()
  const lastId = cut.of('console').at(-1)?.id ?? ''
  const resumed = new ConsoleReader(url(), panel.adminToken, { 'last-event-id': lastId })
  const isLast = (r: ConsoleReader) => r.of('console').some((frame) => frame.data['line'] === 'line 19999')
  await steady.until('the end of it', isLast)
  await resumed.until('the end of it', isLast)
  // Neither a line nor a number is missing or comes twice.
  const last = steady.seqs.at(-1) ?? 0
  expect(steady.seqs).toEqual(range(first, last))
  expect([...cut.seqs, ...resumed.seqs]).toEqual(range(first, last))
  expect(resumed.of('resume_console')[0]?.data).toMatchObject({ missed: 0, reason: null })
  const page = await panel.client.call(getLogs, {
    params: { serverId: game.id },
    query: { lines: 2000, before: `${lastId}` },
  })
  expect(page.logs).toHaveLength(2000)
  expect(page.logs.at(-1)?.seq).toBe(Number(lastId.split('-')[1]) - 1)
  steady.close()
  resumed.close()
})

test('a stream whose game says more than may be passed on says how far it lags, until it has caught up', async () => {
  const steady = new ConsoleReader(`${url()}?lines=0`, panel.adminToken)
  const { data } = await steady.until('the greeting', (r) => r.of('connected')[0])
  expect(data).not.toHaveProperty('lagLines')
  const first = Number(data['lastSeq']) + 1
  await panel.configure('console.outputBytesPerSecond', 65_536)
  try {
    await type('roar')
    const said = await steady.until('the comment', ({ comments }) => comments.find((one) => one.startsWith('lagging')))
    expect(Number(/^lagging by (\d+) lines$/.exec(said)?.[1])).toBeGreaterThan(1000)
    // Who comes meanwhile learns it with the greeting, whether with the newest lines or behind one that was seen.
    for (const headers of [{}, { 'last-event-id': steady.of('console').at(-1)?.id ?? '' }]) {
      // All that the agent has spoken of may be through for a moment, where the machine has much else to do.
      await eventually(async () => {
        const late = new ConsoleReader(url(), panel.adminToken, headers)
        const greeting = await late.until('the greeting', (r) => r.of('connected')[0])
        late.close()
        return Number(greeting.data['lagLines'] ?? 0) > 0
      })
    }
  } finally {
    await panel.configure('console.outputBytesPerSecond', 1_073_741_824)
  }
  await steady.until('the end of it', (r) =>
    r.of('console').some(({ data }) => /^line 19999 /.test(String(data['line']))),
  )
  await steady.until('the end of the lag', ({ comments }) => comments.includes('no longer lagging'))
  expect(steady.comments.at(-1)).toBe('no longer lagging')
  expect(steady.seqs).toEqual(range(first, steady.seqs.at(-1) ?? 0))
  const after = new ConsoleReader(url(), panel.adminToken)
  const greeting = await after.until('the greeting', (r) => r.of('connected')[0])
  expect(greeting.data).not.toHaveProperty('lagLines')
  after.close()
  steady.close()
})
