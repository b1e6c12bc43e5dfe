import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { adoptOrphan, listOrphans, purgeOrphan } from '../../../src/shared/api/orphans.ts'
import { getServer } from '../../../src/shared/api/servers.ts'
import { createTemplate, type Template } from '../../../src/shared/api/templates.ts'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import { gameSpec } from '../../agent/agent-stage.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { GatewayStage } from '../gateway-stage.ts'
import { refusal } from '../place-panel.ts'

let panel: TestPanel
let stage: GatewayStage
let template: Template
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
  template = await makeTemplate({})
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

let made = 0
const makeTemplate = (fields: object) =>
  panel.client.call(createTemplate, { body: { name: `Left ${++made}`, startup: 'sleep 1000', ...fields } })
const idOf = (number: number) => `srv_left${String(number).padStart(4, '0')}`

async function nodeWith(holdings: readonly (readonly [string, ServerSpec | null])[]) {
  const { nodeId, key } = await stage.node()
  const peer: AgentPeer = await stage.connect({ nodeId, key })
  await peer.enter()
  for (const [id, spec] of holdings) peer.holdings.set(id, spec)
  return { nodeId, peer, at: (serverId: string) => ({ nodeId, serverId: serverId as never }) }
}

function known(serverId: string, change: Partial<ServerSpec> = {}): [string, ServerSpec] {
  const ports = [{ ip: '127.0.0.1', port: 31_000 + ++made, primary: true }]
  return [serverId, gameSpec(serverId, 3, { uuid: serverId, templateId: template.id, ports, ...change })]
}

test('all that a node has is listed, also beyond one answer of its agent, what runs first, and each can be purged', async () => {
  const folders = Array.from({ length: 1200 }, (_, number) => [idOf(number), null] as const)
  const { nodeId, peer, at } = await nodeWith([...folders, known('srv_running')])
  peer.running.set('srv_running', 4711)
  const found = await panel.client.call(listOrphans, { params: { nodeId } })
  expect(found).toHaveLength(1201)
  expect(new Set(found.map(({ serverId }) => serverId)).size).toBe(1201)
  expect(found[0]).toMatchObject({ serverId: 'srv_running', power: 'running', pid: 4711 })
  const { commandId } = await panel.client.call(purgeOrphan, { params: at(idOf(1100)) })
  const order = await peer.until('the order', () => peer.of('command').find(({ id }) => id === commandId))
  expect(order).toMatchObject({ serverId: idOf(1100), generation: 4, command: { op: 'delete' } })
  expect((await refusal(panel.client.call(purgeOrphan, { params: at('srv_nobody') }))).code).toBe('SERVER_NOT_FOUND')
})

test('a list ends where a node repeats itself', async () => {
  const { nodeId, peer } = await nodeWith([])
  peer.repeats = [idOf(1), idOf(2)]
  expect(await panel.client.call(listOrphans, { params: { nodeId } })).toHaveLength(2)
})

test('one whose name its owner has given already is adopted under another name only', async () => {
  const { at } = await nodeWith([known('srv_dup1', { name: 'dup' }), known('srv_dup2', { name: 'dup' })])
  await panel.client.call(adoptOrphan, { params: at('srv_dup1'), body: {} })
  await expect(panel.client.call(adoptOrphan, { params: at('srv_dup2'), body: {} })).rejects.toMatchObject({
    code: 'SERVER_NAME_TAKEN',
    message: expect.stringContaining('--name'),
  })
  const body = { name: 'dup again' }
  expect(await panel.client.call(adoptOrphan, { params: at('srv_dup2'), body })).toMatchObject(body)
})

test('one that is adopted by another template says what is otherwise from now on', async () => {
  const other = await makeTemplate({
    stopCommand: 'stop',
    stopTimeoutSeconds: 20,
    startupDetection: { done: [{ kind: 'contains', value: 'up' }], stripAnsi: false },
    listens: 'tcp',
    installScript: 'true',
  })
  const stop = { type: 'signal', value: 'SIGTERM', timeoutMs: 30_000 } as const
  const { at } = await nodeWith([known('srv_other', { name: 'other', stop, done: [], startup: 'sleep 1000' })])
  const body = { templateId: other.id }
  const { conflicts } = await panel.client.call(adoptOrphan, { params: at('srv_other'), body })
  expect(conflicts).toEqual([
    'Stop: "stop" typed into its console (20 s) by the template, was SIGTERM (30 s)',
    'Ready rules: contains "up" by the template, was none',
    'Listens: tcp by the template, was not said',
    'Install script: the template has one, and the node none; it counts when the server is installed again',
  ])
  const same = known('srv_same', { name: 'same', stop, done: [], startup: 'sleep 1000', stripAnsi: true })
  const again = await nodeWith([same])
  expect((await panel.client.call(adoptOrphan, { params: again.at('srv_same'), body: {} })).conflicts).toEqual([])
  expect(await panel.client.call(getServer, { params: { serverId: 'srv_same' as never } })).toMatchObject({
    name: 'same',
  })
})
