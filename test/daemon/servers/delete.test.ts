import { afterAll, beforeAll, expect, test } from 'vitest'
import { deleteServer, type Server } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { ACTION_GATES, ServerStatus } from '../../../src/shared/kernel/server-life.ts'
import { report } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { FACTS, Stage, type StageNode, until } from './stage.ts'

let stage: Stage
let node: StageNode
let template: Template

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  await stage.peer(node)
  template = await stage.template()
})
afterAll(() => stage.close())

const serverIn = (facts: Record<string, unknown>, at: StageNode = node): Promise<Server> =>
  stage.serverIn(template, at, facts)
const remove = (server: Server, query: object = {}) =>
  stage.admin.call(deleteServer, { params: { serverId: server.id }, query: query as never })

test('deletes exactly from the statuses that allow it', async () => {
  for (const status of ServerStatus.options) {
    const server = await serverIn(FACTS[status])
    const allowed: readonly ServerStatus[] = ACTION_GATES.delete
    if (allowed.includes(status)) await remove(server)
    else
      expect((await refusal(remove(server))).code).toBe(
        status === 'suspended' ? 'SERVER_SUSPENDED' : 'SERVER_INVALID_STATE',
      )
    expect((await stage.get(server.id)).status).toBe(allowed.includes(status) ? 'deleting' : status)
    await stage.set(server.id, { power: 'offline', activity: null })
  }
})

test('a server on a node that is away is deleted when the node is back', async () => {
  const away = await stage.node()
  const server = await serverIn(FACTS.stopped, away)
  await remove(server)
  await remove(server)
  expect(await stage.get(server.id)).toMatchObject({ status: 'deleting' })
  expect(await stage.audits(server.id, 'server.delete')).toHaveLength(1)
  const stream = stage.watch(`${server.id}/events?types=server_state_update`)
  await stream.until('the greeting', (r) => r.of('connected')[0])
  const back = await stage.peer(away)
  const command = await back.until('the deletion', () =>
    back.of('command').find((frame) => frame.command.op === 'delete'),
  )
  expect(command.command).toEqual({ op: 'delete', keepFiles: false })
  back.event({
    type: 'command.done',
    commandId: command.id,
    serverId: server.id,
    ok: false,
    noop: false,
    error: { code: 'INTERNAL', message: 'the disk is gone' },
  })
  await stage.ended(command.id)
  expect(await stage.get(server.id)).toMatchObject({
    status: 'deleting',
    reason: 'It could not be deleted: the disk is gone',
  })
  await remove(server, { keepFiles: 'true' })
  const again = await back.until('the next', () =>
    back.of('command').find((frame) => frame.command.op === 'delete' && frame.id !== command.id),
  )
  expect(again.command).toEqual({ op: 'delete', keepFiles: true })
  back.finish(again)
  const end = await stream.until('the end', (r) => r.of('error')[0])
  expect(end.data).toMatchObject({ error: 'server_deleted', serverId: server.id })
  await stream.until('the close', (r) => r.ended)
  expect((await refusal(stage.get(server.id))).code).toBe('SERVER_NOT_FOUND')
  const gone = (await stage.events(server.id)).filter(({ type }) => type === 'server_deleted')
  expect(gone.map(({ data }) => JSON.parse(data))).toEqual([
    { serverName: server.name, ownerId: server.ownerId, deletedBy: server.ownerId },
  ])
})

test('force forgets a server of a node that does not come back, and its port is free at once', async () => {
  const lost = await stage.node()
  const owner = await stage.person()
  const server = await serverIn(FACTS.unknown, lost)
  await stage.set(server.id, { ownerId: owner.id })
  expect((await refusal(remove(server))).code).toBe('SERVER_INVALID_STATE')
  expect(await stage.get(server.id, owner.client)).toMatchObject({ status: 'unknown', lastKnownStatus: 'running' })
  await remove(server, { force: 'true' })
  expect((await refusal(stage.get(server.id))).code).toBe('SERVER_NOT_FOUND')
  expect((await refusal(stage.get(server.id, owner.client))).code).toBe('PERMISSION_DENIED')
  const heir = await stage.create(template, lost, { primaryPort: server.primaryPort })
  expect(heir.allocationId).toBe(server.allocationId)
  // The node may come back after all: then it is told.
  const back = await stage.peer(lost, { servers: [report(server.id)] })
  const command = await back.until('the deletion', () =>
    back.of('command').find((frame) => frame.serverId === server.id),
  )
  expect(command.command).toEqual({ op: 'delete', keepFiles: false })
  expect((await refusal(remove(heir, { force: 'perhaps' }))).code).toBe('VALIDATION_ERROR')
})

/** The ends of orders that the event log tells of a server. */
async function endsOf(serverId: string): Promise<unknown[]> {
  const reported = (await stage.events(serverId)).filter(({ type }) => type === 'server_command_done')
  return reported.map(({ data }) => JSON.parse(data))
}

test('a forced deletion ends the orders that have not left yet, and tells of each once', async () => {
  const lost = await stage.node()
  const server = await stage.create(template, lost)
  await remove(server, { force: 'true' })
  const { commandId } = server
  expect(await endsOf(server.id)).toMatchObject([{ commandId, ok: false, code: 'UNKNOWN_SERVER' }])
  const back = await stage.peer(lost)
  await back.until('the deletion', () => back.of('command').length > 0)
  expect(back.of('command').map(({ command }) => command.op)).toEqual(['delete'])
  expect(await endsOf(server.id)).toHaveLength(1)
})

test('an order whose server is gone when it is its turn ends, and its end is told', async () => {
  const lost = await stage.node()
  const server = await stage.create(template, lost)
  const { commandId } = server
  await stage.db.write((tx) => tx.q.deleteFrom('server').where('id', '=', server.id).execute())
  const back = await stage.peer(lost)
  await until('the end', async () => ((await endsOf(server.id)).length > 0 ? true : undefined))
  expect(await endsOf(server.id)).toMatchObject([{ commandId, ok: false, code: 'UNKNOWN_SERVER' }])
  expect(back.of('command')).toEqual([])
  expect(await stage.commands(server.id)).toMatchObject([{ id: commandId, state: 'failed' }])
})
