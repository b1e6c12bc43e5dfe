import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { rebuildServer } from '../../../src/shared/api/power.ts'
import { type Server, updateServer } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import type { Client } from '../../../src/shared/client.ts'
import { ACTION_GATES, ServerStatus } from '../../../src/shared/kernel/server-life.ts'
import { CAPABILITIES } from '../../../src/shared/protocol/define.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { FACTS, Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let peer: AgentPeer
let template: Template

const IMAGES = [
  { name: 'java21', label: 'Java 21', image: 'registry.example/java:21' },
  { name: 'java17', image: 'registry.example/java:17' },
]

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template({
    runtimes: ['docker', 'process'],
    image: 'registry.example/java:21',
    images: IMAGES,
  })
  peer = await stage.peer(node, { capabilities: [...CAPABILITIES] })
})
afterAll(() => stage.close())

const rebuild = (server: Pick<Server, 'id'>, client: Client = stage.admin, start = false) =>
  client.call(rebuildServer, { params: { serverId: server.id }, body: { start } })
const edit = (server: Server, body: Record<string, unknown>, client: Client = stage.admin) =>
  client.call(updateServer, { params: { serverId: server.id }, body: body as never })

describe('a rebuild', () => {
  it('is accepted exactly where an installation is, once, with its audit row, and shows the server as installing', async () => {
    expect(ACTION_GATES.rebuild).toEqual(ACTION_GATES.install)
    for (const status of ServerStatus.options) {
      const server = await stage.serverIn(template, node, { ...FACTS[status], runtime: 'docker' })
      const allowed: readonly ServerStatus[] = ACTION_GATES.rebuild
      if (!allowed.includes(status)) {
        const code = status === 'suspended' ? 'SERVER_SUSPENDED' : 'SERVER_INVALID_STATE'
        expect({ status, ...(await refusal(rebuild(server))) }).toMatchObject({ status, code })
        continue
      }
      const accepted = await rebuild(server, stage.admin, true)
      expect(accepted).toMatchObject({ action: 'rebuild', desired: 'running', generation: 2 })
      expect((await stage.audits(server.id)).map(({ action }) => action)).toContain('server.rebuild')
      expect(await refusal(rebuild(server))).toMatchObject({
        code: 'SERVER_INVALID_STATE',
        meta: { currentStatus: 'installing' },
      })
    }
  }, 30_000)

  it('is refused for a process with what to do, without its permission, and for a node that is away', async () => {
    const process = await stage.serverIn(template, node, { runtime: 'process' })
    expect(await refusal(rebuild(process))).toMatchObject({ code: 'CONFLICT', meta: { runtime: 'process' } })
    const server = await stage.serverIn(template, node, { runtime: 'docker' })
    const stranger = await stage.person()
    expect((await refusal(rebuild(server, stranger.client))).code).toBe('PERMISSION_DENIED')
    const away = await stage.serverIn(template, await stage.node(), { runtime: 'docker' })
    expect((await refusal(rebuild(away))).code).toBe('NODE_OFFLINE')
    expect(await stage.commands(away.id)).toHaveLength(1)
  })

  it('ends at once at an agent that does not know it', async () => {
    const other = await stage.node()
    const older = await stage.peer(other)
    const server = await stage.serverIn(template, other, { runtime: 'docker' })
    const { commandId } = await rebuild(server)
    await stage.ended(commandId)
    const command = (await stage.commands(server.id)).find(({ id }) => id === commandId)
    expect(command).toMatchObject({ state: 'failed', error: expect.stringContaining('update the agent') })
    expect(older.of('command').filter(({ id }) => id === commandId)).toEqual([])
  })

  it('reaches the node with the specification, and its end is reported', async () => {
    const server = await stage.serverIn(template, node, { runtime: 'docker', image: 'registry.example/java:17' })
    const { commandId } = await rebuild(server)
    const frame = await peer.until('the order', () => peer.of('command').find(({ id }) => id === commandId))
    expect(frame.command).toMatchObject({
      op: 'rebuild',
      spec: { image: 'registry.example/java:17' },
      thenStart: false,
    })
  })
})

describe('processors, disk time and the image of a server', () => {
  let server: Server
  beforeEach(async () => {
    server = await stage.create(template, node, { cpuSet: '0-1', ioWeight: 200, image: 'Java 21' } as never)
  })

  it('are set when it is made, shown, edited, taken back as they were, and sent to its node', async () => {
    expect(server).toMatchObject({ cpuSet: '0-1', ioWeight: 200, image: 'registry.example/java:21' })
    const changed = await edit(server, { cpuSet: '3', ioWeight: 1000, image: 'java17' })
    expect(changed).toMatchObject({ cpuSet: '3', ioWeight: 1000, image: 'registry.example/java:17', generation: 2 })
    expect(await edit(server, { ...changed, name: 'again' })).toMatchObject({ generation: 3, image: changed.image })
    const frame = await peer.until('the specification', () =>
      peer.of('command').find(({ serverId, generation }) => serverId === server.id && generation === 3),
    )
    expect(frame.command).toMatchObject({ spec: { limits: { cpuSet: '3', ioWeight: 1000 } } })
    const none = await edit(server, { cpuSet: null, ioWeight: null, image: null })
    expect(none).toMatchObject({ cpuSet: null, ioWeight: null, image: null })
    const bare = await stage.create(template, node)
    expect(bare).toMatchObject({ cpuSet: null, ioWeight: null, image: null })
  })

  it('are refused outside their bounds, and an image that is not of the template', async () => {
    const wrong: Record<string, unknown[]> = {
      cpuSet: ['', 'all', '1-0', '0,', '-1', '0-9000', '0 1', `${'1,'.repeat(120)}1`],
      ioWeight: [9, 1001, 50.5, '100'],
      image: ['', 'java8', 'registry.example/other:1', 7],
    }
    for (const [field, values] of Object.entries(wrong)) {
      for (const value of values) {
        const refused = await refusal(edit(server, { [field]: value }))
        expect({ field, value, ...refused }).toMatchObject({ code: 'VALIDATION_ERROR', fields: [`body.${field}`] })
        const made = stage.create(template, node, { [field]: value })
        expect({ field, value, ...(await refusal(made)) }).toMatchObject({ fields: [`body.${field}`] })
      }
    }
    const plain = await stage.template()
    expect((await refusal(stage.create(plain, node, { image: 'x' } as never))).fields).toEqual(['body.image'])
  })

  it('are the operator’s to choose but for the image, which is one of those that the template offers', async () => {
    const owner = await stage.person()
    const own = await stage.create(template, node, { ownerId: owner.id, cpuSet: '0' } as never)
    for (const body of [{ cpuSet: '1' }, { cpuSet: null }, { ioWeight: 1000 }]) {
      expect((await refusal(edit(own, body, owner.client))).code).toBe('PERMISSION_DENIED')
    }
    expect(await edit(own, { cpuSet: '0', image: 'java17' }, owner.client)).toMatchObject({
      image: 'registry.example/java:17',
    })
  })
})
