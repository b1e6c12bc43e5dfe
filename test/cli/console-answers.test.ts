import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type AgentPeer, report } from '../daemon/agent-peer.ts'
import { FACTS, Stage } from '../daemon/servers/stage.ts'
import { runBriefly } from './command-walk.ts'

/** A game answers at once, and its node is slow to say how far its console is: the answer must not count as old. */

const SLOW_MS = 700

let stage: Stage
let peer: AgentPeer
let servers: string[]

beforeAll(async () => {
  stage = await Stage.open()
  const node = await stage.node()
  const template = await stage.template()
  const made = [
    await stage.serverIn(template, node, FACTS.running),
    await stage.serverIn(template, node, FACTS.running),
  ]
  servers = made.map(({ id }) => id)
  peer = await stage.peer(node, { servers: servers.map((id) => report(id)) })
})
afterAll(() => stage.close())

beforeEach(() => {
  for (const id of servers) peer.log(id)
  peer.waitsFor = (request) => {
    if (request.op === 'console.input') {
      // As soon as it is typed, before anybody hears that it was.
      for (const line of request.lines) peer.say(request.serverId, 1, () => `hi ${line}`)
      return undefined
    }
    if (request.op !== 'console.subscribe') return undefined
    const typed = peer.typed.length
    return Promise.race([
      peer
        .until('a line that is typed', () => peer.typed.length > typed, 10 * SLOW_MS)
        .then(
          () => undefined,
          () => undefined,
        ),
      new Promise<void>((resolve) => setTimeout(resolve, SLOW_MS)),
    ])
  }
})

const run = (args: readonly string[], input?: string) => {
  const env = { HOME: stage.panel.home, PANEL_URL: stage.panel.url, PANEL_TOKEN: stage.panel.adminToken }
  return runBriefly([...args], { env, ...(input === undefined ? {} : { input }) })
}

it('what is sent and expected is sent when the console is at hand', { timeout: 60_000 }, async () => {
  const ran = await run(['console', 'expect', servers[0] ?? '', 'hi bob', '--send', 'bob', '--timeout', '5s'])
  expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining('hi bob') })
})

it('lines of stdin are sent when the console is at hand', { timeout: 60_000 }, async () => {
  const ran = await run(['console', 'attach', servers[1] ?? '', '--no-tui', '--tail', '0'], 'ann\n')
  expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining('hi ann') })
})
