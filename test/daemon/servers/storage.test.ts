import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { getServer, resizeStorage, type Server, updateServer } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import type { Client } from '../../../src/shared/client.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { type Person, Stage, type StageNode, until } from './stage.ts'

let stage: Stage
let node: StageNode
let template: Template
let owner: Person
let server: Server
let peer: AgentPeer

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template({ mounts: [{ source: '/srv/maps', target: 'maps', readOnly: true }] })
  owner = await stage.person()
})
afterAll(() => stage.close())
beforeEach(async () => {
  server = await stage.create(template, node, { ownerId: owner.id, allocatedDiskMb: 1000 })
  peer = await stage.peer(node)
})

const resize = (allocatedDiskMb: number, client: Client = stage.admin) =>
  client.call(resizeStorage, { params: { serverId: server.id }, body: { allocatedDiskMb } })
const shown = () => stage.admin.call(getServer, { params: { serverId: server.id } })

const NO_FIGURES = {
  cpuCores: null, memoryMb: null, ioReadBytes: null, ioWriteBytes: null, networkRxBytes: null, networkTxBytes: null, processes: null,
  uptimeMs: null,
} // biome-ignore format: a list

/** The node says what the server uses. */
async function report(diskMb: number, more: Record<string, unknown> = {}): Promise<void> {
  peer.send({ type: 'stats', servers: [{ serverId: server.id, ...NO_FIGURES, diskMb, ...more }] } as never)
  await until('the report', async () => ((await shown()).diskUsageMb === diskMb ? true : undefined))
}

describe('the disk limit of a server', () => {
  it('is changed while it runs, by an order to its node, and leaves an audit row', async () => {
    const answer = await resize(2000)
    expect(answer).toMatchObject({ allocatedDiskMb: 2000, previousDiskMb: 1000 })
    expect(answer.commandId).toMatch(/^cmd_/)
    expect((await shown()).allocatedDiskMb).toBe(2000)
    expect(await stage.audits(server.id, 'server.resize_storage')).toHaveLength(1)
    expect(await resize(2000)).toMatchObject({ commandId: null })
  })

  it('is not made smaller than what the server uses, with the figures', async () => {
    await report(600)
    const refused = await refusal(resize(500))
    expect(refused).toMatchObject({ code: 'CONFLICT', meta: { diskUsageMb: 600, allocatedDiskMb: 1000 } })
    expect(await resize(700)).toMatchObject({ allocatedDiskMb: 700 })
  })

  it('is not made smaller before the node has counted what the server uses', async () => {
    const refused = await refusal(resize(500))
    expect(refused).toMatchObject({ code: 'CONFLICT', meta: { diskUsageMb: null, allocatedDiskMb: 1000 } })
    expect(await resize(1500)).toMatchObject({ allocatedDiskMb: 1500 })
    await report(600)
    expect(await resize(700)).toMatchObject({ allocatedDiskMb: 700 })
  })

  it('is not made smaller than that by a plain edit either, which then changes nothing', async () => {
    await report(600)
    const edit = (body: object, client: Client = stage.admin) =>
      client.call(updateServer, { params: { serverId: server.id }, body })
    const refused = await refusal(edit({ description: 'smaller', allocatedDiskMb: 512 }))
    expect(refused).toMatchObject({ code: 'CONFLICT', meta: { diskUsageMb: 600, allocatedDiskMb: 1000 } })
    expect(await shown()).toMatchObject({ allocatedDiskMb: 1000, description: null })
    expect(await refusal(edit({ allocatedDiskMb: 512 }, owner.client))).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await edit({ allocatedDiskMb: 600 })).toMatchObject({ allocatedDiskMb: 600 })
    // What is above its limit already may still get more, and anything else be edited.
    await report(900)
    expect(await edit({ description: 'full' })).toMatchObject({ description: 'full', allocatedDiskMb: 600 })
    expect(await edit({ allocatedDiskMb: 800 })).toMatchObject({ allocatedDiskMb: 800 })
  })

  it('is the operator’s to change, and only while the node is there', async () => {
    expect(await refusal(resize(2000, owner.client))).toMatchObject({ code: 'PERMISSION_DENIED' })
    await peer.leave()
    await until('the node to be away', async () => ((await shown()).node.isOnline ? undefined : true))
    expect(await refusal(resize(2000))).toMatchObject({ code: 'NODE_OFFLINE' })
  })

  it('is shown with what holds it, as soon as the node has said so', async () => {
    expect((await shown()).diskEnforced).toBeNull()
    await report(10, { diskEnforced: 'kernel' })
    expect((await shown()).diskEnforced).toBe('kernel')
    await report(11, { diskEnforced: 'a thing of later versions' })
    expect((await shown()).diskEnforced).toBeNull()
  })
})

describe('the mounts of a server', () => {
  const edit = (mounts: unknown, client: Client = stage.admin) =>
    client.call(updateServer, { params: { serverId: server.id }, body: { mounts } as never })
  const own = { source: '/srv/shared', target: 'shared', readOnly: false }

  it('are the administrators’ to change, and shown', async () => {
    expect(await refusal(edit([own], owner.client))).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect((await edit([{ source: own.source, target: own.target }])).mounts).toEqual([own])
    expect((await edit([])).mounts).toEqual([])
  })

  it.each([
    { source: 'srv/maps', target: 'a', why: 'a relative source' },
    { source: '/srv/../etc', target: 'a', why: 'a source with ..' },
    { source: '/', target: 'a', why: 'the whole machine' },
    { source: '/srv:x', target: 'a', why: 'a source with :' },
    { source: '/srv', target: '../a', why: 'a target with ..' },
    { source: '/srv', target: '/etc/a', why: 'a target in the system' },
    { source: '/srv', target: '.', why: 'the folder of the server itself' },
  ])('are refused for $why', async ({ source, target }) => {
    expect(await refusal(edit([{ source, target }]))).toMatchObject({ code: 'VALIDATION_ERROR' })
  })

  it('are refused when one lies in another', async () => {
    const inner = { source: '/srv/x', target: 'shared/inner' }
    expect(await refusal(edit([own, inner]))).toMatchObject({ code: 'VALIDATION_ERROR' })
  })

  it('reach the node with those of the template', async () => {
    await edit([own])
    const spec = await until('the specification', async () =>
      peer
        .of('command')
        .map(({ command }) => ('spec' in command ? command.spec : undefined))
        .find((one) => one?.serverId === server.id && one.mounts?.length === 2),
    )
    expect(spec.mounts).toEqual([{ source: '/srv/maps', target: 'maps', readOnly: true }, own])
  })
})
