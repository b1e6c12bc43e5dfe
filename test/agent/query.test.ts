// @module-tag long
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { QueryProtocol } from '../../src/shared/protocol/game-query.ts'
import type { ServerUsage } from '../../src/shared/protocol/server.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { play } from '../games/person.ts'
import { readStarter, readTemplate } from '../games/starter-template.ts'
import { joinTeeworlds } from '../games/teeworlds-client.ts'
import { quietPort } from '../ports.ts'
import { skippedUnless } from '../skips.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'

const TEEWORLDS = '/usr/games/teeworlds-server'

/** Games that answer as some would to hurt whoever asks. Each line is the code behind `answer` of a program that listens. */
const GAMES: Readonly<Record<string, { protocol: QueryProtocol; code: string }>> = {
  fair: {
    protocol: 'minecraft',
    code: `answer = () => status({ players: { online: 2, max: 20, sample: [{ name: 'Ann' }, { name: 'Zo\\u00eb' }] } })`,
  },
  named: {
    protocol: 'minecraft',
    code: `answer = () => status({ players: { online: 9000, max: 9000,
      sample: Array.from({ length: 5000 }, (_, i) => ({ name: '\\u001b[31mX\\u202e' + i + 'y'.repeat(i === 0 ? 500 : 5) })) } })`,
  },
  absurd: { protocol: 'minecraft', code: `answer = () => status({ players: { online: 1e12, max: -5 } })` },
  deep: { protocol: 'minecraft', code: `answer = () => packet('{"players":' + '['.repeat(100000))` },
  flood: {
    protocol: 'minecraft',
    code: `answer = (socket) => { const go = () => { while (socket.write(Buffer.alloc(65536, 0xff))); socket.once('drain', go) }; go() }`,
  },
  drip: {
    protocol: 'minecraft',
    code: `answer = (socket) => { socket.write(Buffer.from([0xff, 0xff, 0x0f])); setInterval(() => socket.write('x'), 1) }`,
  },
  silent: { protocol: 'minecraft', code: 'answer = () => undefined' },
  quake: {
    protocol: 'quake3',
    code: `reply = () => [Buffer.from('\\xff\\xff\\xff\\xffstatusResponse\\n\\\\sv_maxclients\\\\8\\\\x\\\\sv_maxclients\\n3 40 "^1Ann"\\n0 9 "a\\u001bb"\\n', 'latin1')]`,
  },
  valve: {
    protocol: 'source',
    code: `reply = (question) => {
      if (question.length < 9 || (question[4] === 0x54 && question.length < 29)) return [Buffer.from('ffffffff4101020304', 'hex')]
      if (question[4] === 0x54) return [Buffer.concat([Buffer.from('ffffffff4911', 'hex'), Buffer.from('n\\0m\\0f\\0g\\0'), Buffer.from([0, 0, 1, 16, 0])])]
      return [Buffer.concat([Buffer.from('ffffffff4401', 'hex'), Buffer.from('\\0Bob\\0'), Buffer.alloc(8)])]
    }`,
  },
  challenged: { protocol: 'source', code: `reply = () => [Buffer.from('ffffffff4101020304', 'hex')]` },
  bedrock: {
    protocol: 'bedrock',
    code: `reply = (question) => { const text = Buffer.from('MCPE;a;1;1.20;3;10;1;b'); const size = Buffer.alloc(2); size.writeUInt16BE(text.length)
      return [Buffer.concat([Buffer.from([0x1c]), question.subarray(1, 9), Buffer.alloc(8), question.subarray(9, 25), size, text])] }`,
  },
  storm: { protocol: 'mumble', code: `reply = () => Array.from({ length: 500 }, () => Buffer.alloc(60000, 1))` },
}

/** What every such program is besides: TCP and UDP on its port. */
const FRAME = `
const net = require('node:net'), udp = require('node:dgram').createSocket('udp4')
let answer = () => undefined, reply = () => []
const varint = (n) => { const bytes = []; while (n > 127) { bytes.push((n & 127) | 128); n >>>= 7 } return Buffer.from([...bytes, n]) }
const packet = (text) => { const json = Buffer.from(text); const body = Buffer.concat([Buffer.from([0]), varint(json.length), json]); return Buffer.concat([varint(body.length), body]) }
const status = (value) => packet(JSON.stringify(value))
net.createServer((socket) => {
  socket.on('error', () => {})
  socket.once('data', () => { const bytes = answer(socket); if (Buffer.isBuffer(bytes)) socket.write(bytes) })
}).listen(Number(process.env.SERVER_PORT), '127.0.0.1', () => udp.bind(Number(process.env.SERVER_PORT), '127.0.0.1', () => console.log('ready')))
udp.on('error', () => {})
udp.on('message', (question, from) => { for (const bytes of reply(question)) udp.send(bytes, from.port, from.address) })
`

let stage: AgentStage
const ids: string[] = []
const ports = new Map<string, number>()

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave(ids)
}, 60_000)

/** Starts servers together and has the agent look at them often. */
async function start(made: Readonly<Record<string, Partial<ServerSpec>>>): Promise<void> {
  await Promise.all(
    Object.entries(made).map(async ([id, change]) => {
      const port = await quietPort()
      ports.set(id, port)
      ids.push(id)
      const spec = gameSpec(id, 1, { ports: [{ ip: '127.0.0.1', port, primary: true }], listens: 'any', ...change })
      if (spec.install === null) await stage.peer.order(id, 1, { op: 'start', spec })
      else await stage.peer.order(id, 1, { op: 'install', wipe: false, thenStart: true, spec })
      await stage.peer.passing(id, 'to run', ({ power }) => power === 'running')
    }),
  )
  await stage.peer.request({ op: 'stats.watch', serverIds: [...ids] })
}

const fake = (name: string): Partial<ServerSpec> => ({
  startup: 'exec "$PANEL_NODE" -e "$CODE"',
  env: { CODE: `${FRAME}\n${GAMES[name]?.code}` },
  query: { protocol: GAMES[name]?.protocol ?? 'demo' },
})

const usages = (id: string): ServerUsage[] =>
  stage.peer.of('stats').flatMap(({ servers }) => servers.filter(({ serverId }) => serverId === id))
const playersOf = (id: string) => usages(id).at(-1)?.players
const counted = (id: string) => stage.peer.until(`the players of ${id}`, () => playersOf(id) ?? undefined)

test('games are asked who plays, and what they answer is bounded; none of them hurts the agent', async () => {
  const elsewhere = createServer().listen(0, '127.0.0.1')
  let asked = 0
  elsewhere.on('connection', (socket) => {
    asked += 1
    socket.destroy()
  })
  await once(elsewhere, 'listening')
  const { port } = elsewhere.address() as AddressInfo // a TCP listener has one
  try {
    await start({
      ...Object.fromEntries(Object.keys(GAMES).map((name) => [name, fake(name)])),
      // Its port is that of another program: whoever may set a variable must not have the agent knock there.
      foreign: { ...fake('silent'), query: { protocol: 'minecraft', port } },
      unasked: { startup: fake('fair').startup ?? '', env: fake('fair').env ?? {} },
    })
    expect(await counted('fair')).toEqual({ online: 2, max: 20, names: ['Ann', 'Zoë'] })
    expect(await counted('quake')).toEqual({ online: 2, max: 8, names: ['Ann', 'a b'] })
    expect(await counted('valve')).toEqual({ online: 1, max: 16, names: ['Bob'] })
    expect(await counted('bedrock')).toEqual({ online: 3, max: 10, names: [] })
    const named = await counted('named')
    expect(named).toMatchObject({ online: 9000, max: 9000 })
    expect(named.names).toHaveLength(100)
    expect(named.names.slice(0, 2)).toEqual([`X 0${'y'.repeat(44)}…`, 'X 1yyyyy'])
    // By now each was asked at least once, and its answer is known to be none.
    await stage.peer.until('two reports of all', () => ids.every((id) => usages(id).length >= 3))
    for (const id of ['absurd', 'deep', 'flood', 'drip', 'silent', 'challenged', 'storm', 'foreign', 'unasked']) {
      expect([id, usages(id).map(({ players }) => players ?? null)]).toEqual([id, usages(id).map(() => null)])
    }
    expect(asked).toBe(0)
    expect(stage.output).not.toMatch(/unhandled|heap|ERR_/i)
  } finally {
    elsewhere.close()
  }
}, 60_000)

test('people who join the demo game are counted while they play', { timeout: 60_000 }, async () => {
  const template = await readStarter('demo')
  const env = Object.fromEntries(template.variables.map(({ name, default: value }) => [name, value]))
  await start({
    demo: {
      startup: template.startup,
      done: template.startupDetection.done,
      env,
      query: { protocol: 'demo' },
      install: { script: template.installScript ?? '', entrypoint: 'sh', timeoutMs: 60_000 },
    },
  })
  expect(await counted('demo')).toEqual({ online: 0, max: 8, names: [] })
  const ann = await play({ host: '127.0.0.1', port: ports.get('demo') ?? 0 }, 'Ann')
  await stage.peer.until('Ann to be counted', () => playersOf('demo')?.online === 1)
  ann.type('quit\n')
  await ann.gone
  await stage.peer.until('Ann to be gone', () => playersOf('demo')?.online === 0)
})

test.skipIf(!existsSync(TEEWORLDS))(
  `a client that joins Teeworlds is counted until it leaves${skippedUnless(existsSync(TEEWORLDS), TEEWORLDS)}`,
  { timeout: 60_000 },
  async () => {
    const template = await readTemplate(new URL('../../templates/teeworlds.yaml', import.meta.url))
    const env = Object.fromEntries(template.variables.map(({ name, default: value }) => [name, value]))
    await start({
      teeworlds: {
        startup: template.startup,
        done: template.startupDetection.done,
        listens: 'udp',
        env,
        query: { protocol: 'teeworlds' },
        stop: { type: 'signal', value: 'SIGTERM', timeoutMs: 10_000 },
        install: { script: template.installScript ?? '', entrypoint: 'sh', timeoutMs: 60_000 },
      },
    })
    const leave = await joinTeeworlds({ host: '127.0.0.1', port: ports.get('teeworlds') ?? 0 })
    await stage.peer.until('the client to be counted', () => playersOf('teeworlds')?.online === 1)
    await leave()
    await stage.peer.until('the client to be gone', () => playersOf('teeworlds')?.online === 0)
  },
)
