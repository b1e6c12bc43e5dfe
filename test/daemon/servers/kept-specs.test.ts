import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServer } from '../../../src/shared/api/power.ts'
import { updateSecuritySettings } from '../../../src/shared/api/security-settings.ts'
import { addServerAllocation } from '../../../src/shared/api/server-allocations.ts'
import { type Server, updateServer } from '../../../src/shared/api/servers.ts'
import { pinServer } from '../../../src/shared/api/template-pin.ts'
import { type Template, updateTemplate } from '../../../src/shared/api/templates.ts'
import { newId } from '../../../src/shared/kernel/ids.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import { recordStatements } from '../../faulty-driver.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import { FACTS, STAMP, Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let peer: AgentPeer
let template: Template

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  peer = await stage.peer(node)
  template = await stage.template({ startup: './run --old', variables: [{ name: 'WORD', default: 'one' }] })
})
afterAll(() => stage.close())

/** The specification that the node gets with a start, after which the server has ended again. */
async function started(serverId: Server['id']): Promise<ServerSpec> {
  const given = await stage.admin.call(startServer, { params: { serverId }, body: {} })
  const frame = await peer.until('the order', () => peer.of('command').find(({ id }) => id === given.commandId))
  peer.finish(frame)
  const rests = report(serverId, { power: 'offline', pid: null, uptimeMs: null, generation: given.generation })
  const seq = peer.event({ type: 'server.state', report: rests, previous: 'running', commandId: null })
  await peer.until('its acknowledgement', () => peer.of('event.ack').find((ack) => ack.seq >= seq))
  if (!('spec' in frame.command)) throw new Error('a start without a specification')
  expect([frame.generation, frame.command.spec.generation]).toEqual([given.generation, given.generation])
  return frame.command.spec
}

/** The statements that read what a specification is made of, while `work` is done. */
async function readsOf(work: () => Promise<unknown>): Promise<number> {
  const recorded = recordStatements()
  try {
    await work()
    return recorded.texts.filter((text) => /^select.*"server"."cpu_set".*"allocation"."ip"/.test(text)).length
  } finally {
    recorded.remove()
  }
}

test('a start after a start says the same at another generation, and reads the server no more', async () => {
  const { id } = await stage.serverIn(template, node, FACTS.stopped)
  const first = await started(id)
  expect(first).toMatchObject({ serverId: id, startup: './run --old', env: { WORD: 'one' } })
  let again: ServerSpec | undefined
  // What others commit in the same moment may have it read.
  const reads: number[] = []
  for (let i = 0; i < 5; i++) reads.push(await readsOf(async () => (again = await started(id))))
  expect(Math.min(...reads)).toBe(0)
  expect(again).toEqual({ ...first, generation: first.generation + 5 })
})

test('whatever changes in a server, its template, its ports or the settings is in the next start', async () => {
  const { id } = await stage.serverIn(template, node, FACTS.stopped)
  const params = { serverId: id }
  const edit = (body: Record<string, unknown>) => stage.admin.call(updateServer, { params, body: body as never })
  const change = (body: Record<string, unknown>) =>
    stage.admin.call(updateTemplate, { params: { templateId: template.id }, body: body as never })
  const set = (columns: Record<string, unknown>) => stage.set(id, columns) // by another connection
  const steps: readonly (readonly [string, () => Promise<unknown>, object])[] = [
    ['name', () => edit({ name: 'Other' }), { name: 'Other' }],
    ['memory', () => edit({ allocatedMemoryMb: 96 }), { limits: { memoryMb: 96 } }],
    ['variable', () => edit({ environment: { WORD: 'two' } }), { env: { WORD: 'two' } }],
    ['line', () => edit({ startupCommand: './own' }), { startup: './own' }],
    ['no line', () => edit({ startupCommand: null }), { startup: './run --old' }],
    ['time to stop', () => edit({ stopTimeoutSeconds: 7 }), { stop: { timeoutMs: 7000 } }],
    ['boot', () => edit({ bootPolicy: 'always' }), { boot: { policy: 'always' } }],
    ['time zone', () => edit({ timeZone: 'Europe/Berlin' }), { timeZone: 'Europe/Berlin' }],
    ['template', () => change({ startup: './run --new' }), { startup: './run --new' }],
    ['pin', () => stage.admin.call(pinServer, { params, body: {} }), { startup: './run --new' }],
    ['pinned', () => change({ startup: './run --newest' }), { startup: './run --new' }],
    ['log', () => stage.admin.call(updateSecuritySettings, { body: { consoleLogMb: 3 } }), { console: { logMb: 3 } }],
    ['size, elsewhere', () => set({ diskMb: 77 }), { limits: { diskMb: 77 } }],
    ['no pin, elsewhere', () => set({ pinnedTemplate: null, pinnedAt: null }), { startup: './run --newest' }],
  ]
  for (const [what, work, expected] of steps) {
    await started(id)
    await work()
    expect(await started(id), what).toMatchObject(expected)
  }
  const before = await started(id)
  const port = stage.port()
  await stage.admin.call(addServerAllocation, { params, body: { containerPort: port } as never })
  const after = await started(id)
  expect([before, after].map(({ ports }) => ports.map((one) => one.port))).toEqual([
    [before.ports[0]?.port],
    [before.ports[0]?.port, port],
  ])
})

test('many servers that are started together get what is theirs', async () => {
  const servers = await Promise.all(Array.from({ length: 40 }, () => stage.serverIn(template, node, FACTS.stopped)))
  for (let round = 0; round < 3; round++) {
    const specs = await Promise.all(servers.map(({ id }) => started(id)))
    expect(specs.map(({ serverId, name, ports }) => [serverId, name, ports[0]?.port])).toEqual(
      servers.map(({ id, name, primaryPort }) => [id, name, primaryPort]),
    )
  }
})

test('a template is read once, whichever others it is asked for with', async () => {
  const templates = await Promise.all([1, 2, 3].map(() => stage.template()))
  const [a, b, c] = await Promise.all(templates.map((one) => stage.serverIn(one, node, FACTS.stopped)))
  if (a === undefined || b === undefined || c === undefined) throw new Error('no servers')
  for (const { id } of [a, b, c]) await started(id)
  const reads: number[] = []
  // What others commit in the same moment may have it read.
  for (let i = 0; i < 5; i++) {
    const recorded = recordStatements()
    try {
      for (const some of [
        [a, b],
        [b, c],
        [a, c],
        [a, b, c],
      ])
        await Promise.all(some.map(({ id }) => started(id)))
      reads.push(recorded.texts.filter((text) => /from "template"/.test(text)).length)
    } finally {
      recorded.remove()
    }
  }
  expect(Math.min(...reads)).toBe(0)
})

test('orders of many megabytes reach a node that reads them, over one connection', async () => {
  const far = await stage.node()
  const large = await stage.template({ startup: './run', installScript: 'x'.repeat(30 * 1024) })
  const { id: serverId } = await stage.serverIn(large, far, FACTS.stopped)
  const order = (place: number) => ({
    id: newId('cmd', systemClock),
    nodeId: far.id,
    serverId,
    generation: 10 + place,
    op: 'start',
    args: '{}',
    state: 'queued',
    noop: 0,
    createdAt: STAMP,
  })
  const orders = Array.from({ length: 600 }, (_, place) => order(place))
  await stage.db.write(({ q }) =>
    q
      .insertInto('command')
      .values(orders as never)
      .execute(),
  )
  const slow = await stage.peer(far)
  const got = new Set<string>()
  while (got.size < orders.length) {
    const fresh = await slow.until('more orders', () => {
      const more = slow.of('command').filter(({ id }) => !got.has(id))
      return more.length > 0 && more
    })
    for (const { id } of fresh) {
      got.add(id)
      slow.send({ type: 'command.accepted', id })
    }
  }
  expect([slow.closeCode, slow.of('command').length]).toEqual([undefined, orders.length])
  expect([...got]).toEqual(orders.map(({ id }) => id))
})
