import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startServer } from '../../../src/shared/api/power.ts'
import { type Server, updateServer } from '../../../src/shared/api/servers.ts'
import { pinServer, unpinServer } from '../../../src/shared/api/template-pin.ts'
import { type Template, updateTemplate } from '../../../src/shared/api/templates.ts'
import type { Client } from '../../../src/shared/client.ts'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let peer: AgentPeer
let template: Template

const startupCommands = [
  { name: 'Fast', command: './run --fast' },
  { name: 'Safe', command: './run --safe' },
]

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  peer = await stage.peer(node, { capabilities: ['servers@1', 'console@1', 'node@1', 'startup@1'] })
})
afterAll(() => stage.close())
beforeEach(async () => {
  template = await stage.template({
    startup: './run --old',
    startupCommands,
    installScript: 'echo old',
    variables: [{ name: 'WORD', default: 'one', rules: ['max:3'] }],
  })
})

const params = ({ id: serverId }: Server) => ({ params: { serverId } })
const pin = (server: Server, body = {}, client = stage.admin) => client.call(pinServer, { ...params(server), body })
const unpin = (server: Server, client = stage.admin) => client.call(unpinServer, params(server))
const edit = (server: Server, body: Record<string, unknown>, client: Client = stage.admin) =>
  client.call(updateServer, { ...params(server), body: body as never })
const change = (body: Record<string, unknown>) =>
  stage.admin.call(updateTemplate, { params: { templateId: template.id }, body: body as never })

/** What the node was sent last for a server, at this generation. */
async function specOf({ id, generation }: Pick<Server, 'id' | 'generation'>): Promise<ServerSpec> {
  const found = await peer.until(`generation ${generation} of ${id}`, () =>
    peer.of('command').find((frame) => frame.serverId === id && frame.generation === generation),
  )
  peer.finish(found)
  if (!('spec' in found.command)) throw new Error('a command without a specification')
  return found.command.spec
}

test('a pinned server keeps its template: line, script, variables and view, until it takes over what that has become', async () => {
  const [kept, free] = [await stage.create(template, node), await stage.create(template, node)]
  const pinned = await pin(kept)
  expect(pinned).toMatchObject({ pinnedAt: expect.any(String), templateChanged: false, generation: 2 })
  expect(await specOf(pinned)).toMatchObject({ startup: './run --old' })
  const variables = [{ name: 'OTHER', default: 'x' }]
  await change({ startup: './run --new', installScript: 'echo new', variables, startupCommands: [] })

  const view = await stage.get(kept.id)
  expect(view).toMatchObject({ templateChanged: true, pinnedAt: pinned.pinnedAt, template: { startup: './run --old' } })
  expect(view.template.variables.map(({ name }) => name)).toEqual(['WORD'])
  expect((await stage.get(free.id)).template).toMatchObject({ startup: './run --new', startupCommands: [] })
  const edited = await edit(kept, { environment: { WORD: 'two' } })
  expect(await specOf(edited)).toMatchObject({
    startup: './run --old',
    env: { WORD: 'two' },
    install: { script: 'echo old' },
  })
  expect((await refusal(edit(kept, { environment: { WORD: 'four' } }))).fields).toEqual(['body.environment.WORD'])
  expect((await refusal(edit(kept, { environment: { OTHER: 'y' } }))).fields).toEqual(['body.environment.OTHER'])

  expect(await pin(kept)).toMatchObject({ pinnedAt: pinned.pinnedAt, templateChanged: true, generation: 3 })
  const fresh = await pin(kept, { refresh: true })
  expect(fresh).toMatchObject({ templateChanged: false, generation: 4, template: { startup: './run --new' } })
  await change({ startup: './run --newest' })
  const loose = await unpin(kept)
  expect(loose).toMatchObject({ pinnedAt: null, templateChanged: false, generation: 5 })
  expect(await specOf(loose)).toMatchObject({ startup: './run --newest', env: { OTHER: 'x' } })
  expect(await unpin(kept)).toMatchObject({ generation: 5 })
  expect((await stage.audits(kept.id)).map(({ action }) => action).filter((action) => action.includes('pin'))).toEqual([
    'server.unpin',
    'server.pin',
    'server.pin',
  ])
})

test('only administrators say which version of its template a server has', async () => {
  const owner = await stage.person()
  const server = await stage.create(template, node, { ownerId: owner.id })
  for (const call of [() => pin(server, {}, owner.client), () => unpin(server, owner.client)]) {
    expect(await refusal(call())).toMatchObject({ code: 'PERMISSION_DENIED', meta: { missing: ['admin.write'] } })
  }
  await stage.set(server.id, { suspendedAt: '2026-01-01T00:00:00.000Z' })
  expect((await refusal(pin(server))).code).toBe('SERVER_SUSPENDED')
})

test('a server is started by the line that was chosen by name, by its owner too', async () => {
  const owner = await stage.person()
  const server = await stage.create(template, node, { ownerId: owner.id, startupName: 'Fast' })
  expect(server).toMatchObject({ startupName: 'Fast', template: { startupCommands } })
  expect(await specOf(server)).toMatchObject({ startup: './run --fast' })
  const safe = await edit(server, { startupName: 'Safe' }, owner.client)
  expect(await specOf(safe)).toMatchObject({ startup: './run --safe' })
  for (const body of [{ startupName: 'None' }, { startupCommand: './own' }]) {
    expect(await refusal(edit(server, body))).toMatchObject({ fields: ['body.startupName'] })
  }
  expect((await refusal(stage.create(template, node, { startupName: 'x' }))).fields).toEqual(['body.startupName'])
  const own = await edit(server, { startupName: '', startupCommand: './own' })
  expect(own).toMatchObject({ startupName: null })
  expect(await specOf(own)).toMatchObject({ startup: './own' })
})

test('a line that a server has chosen stays in its template, unless the server is pinned', async () => {
  const server = await stage.create(template, node, { startupName: 'Fast' })
  const without = { startupCommands: startupCommands.slice(1) }
  expect((await refusal(change(without))).fields).toEqual(['body.startupCommands'])
  await pin(server)
  await change(without)
  expect((await refusal(pin(server, { refresh: true }))).code).toBe('CONFLICT')
  expect((await refusal(unpin(server))).code).toBe('CONFLICT')
  const plain = await edit(server, { startupName: null })
  expect(await specOf(plain)).toMatchObject({ startup: './run --old' })
  expect(await unpin(server)).toMatchObject({ pinnedAt: null })
})

test.each([
  ['splits values', { startup: './run {{WORD | split}}', variables: [{ name: 'WORD' }] }],
  ['is for bash', { startup: '[[ 1 == 1 ]] && ./run', shell: 'bash' }],
])('an agent that does not know it is not sent a line that %s, and a start says so', async (_, body) => {
  const old = await stage.node()
  const agent = await stage.peer(old, { capabilities: ['servers@1', 'console@1', 'node@1'] })
  const server = await stage.serverIn(await stage.template({ ...body, installScript: null }), old, { installed: 1 })
  expect(await refusal(stage.admin.call(startServer, { ...params(server), body: {} }))).toMatchObject({
    code: 'AGENT_VERSION',
  })
  const edited = await edit(server, { maxCrashCount: 9 })
  const [sent] = (await stage.commands(server.id)).filter(({ generation }) => generation === edited.generation)
  const ended = await stage.ended(sent?.id ?? '')
  expect(ended).toMatchObject({ state: 'failed', error: expect.stringContaining('startup@1') })
  expect(agent.of('command')).toEqual([])
})
