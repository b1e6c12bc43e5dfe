import { afterAll, beforeAll, expect, test } from 'vitest'
import { LATER_FIELDS } from '../../../src/daemon/features/servers/servers/later-fields.ts'
import { startServer, stopServer } from '../../../src/shared/api/power.ts'
import { patchServer, type Server } from '../../../src/shared/api/servers.ts'
import { NewTemplate } from '../../../src/shared/api/template-fields.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { Stage, type StageNode } from './stage.ts'

/** What the first version of the panel stored of a template. */
const FIRST_FIELDS = [
  'description', 'author', 'version', 'runtimes', 'image', 'images', 'defaultImage', 'startup', 'stopCommand', 'sendSignalTo',
  'stopTimeoutSeconds', 'startupDetection', 'variables', 'installScript', 'installEntrypoint', 'installImage',
  'installTimeoutSeconds', 'supportedPorts', 'allocatedMemoryMb', 'allocatedCpuCores', 'features', 'srvService', 'srvProtocol',
] // biome-ignore format: a list

let stage: Stage
let node: StageNode
let peer: AgentPeer

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  peer = await stage.peer(node)
})
afterAll(() => stage.close())

const start = async ({ id }: Server) =>
  (await stage.admin.call(startServer, { params: { serverId: id }, body: {} })).commandId

const commandOf = (commandId: string) =>
  peer.until('the command', () => peer.of('command').find(({ id }) => id === commandId))

/** A stopped server whose template says what `change` makes of its definition. */
async function serverOf(change: (definition: Record<string, unknown>) => Record<string, unknown>): Promise<Server> {
  const template = await stage.template({ startup: './run' })
  const server = await stage.serverIn(template, node, { installed: 1 })
  await stage.db.write(async (tx) => {
    const row = await tx.q.selectFrom('template').select('definition').where('id', '=', template.id).executeTakeFirst()
    const definition = JSON.stringify(change(JSON.parse(row?.definition ?? '')))
    await tx.q.updateTable('template').set({ definition }).where('id', '=', template.id).execute()
  })
  return server
}

test('servers of a template that was stored by an earlier version are edited, started and stopped', async () => {
  const server = await serverOf((definition) =>
    Object.fromEntries(FIRST_FIELDS.map((name) => [name, definition[name]])),
  )
  const params = { serverId: server.id }
  const edited = await stage.admin.call(patchServer, { params, body: { startupName: null } })
  expect(edited.startupName).toBeNull()
  const started = await commandOf(await start(server))
  expect(started.command).toMatchObject({ op: 'start', spec: { startup: './run', env: {} } })
  const { commandId } = await stage.admin.call(stopServer, { params, body: {} })
  expect((await commandOf(commandId)).command.op).toBe('stop')
})

test('an order that cannot be made of what is stored fails, and no other one waits behind it', async () => {
  const broken = await serverOf((definition) => ({ ...definition, variables: null }))
  const whole = await serverOf((definition) => definition)
  const [failed, sent] = [await start(broken), await start(whole)]
  expect((await commandOf(sent)).serverId).toBe(whole.id)
  expect(await stage.ended(failed)).toMatchObject({ state: 'failed' })
})

test('has the defaults of the contract for all fields that a template may have been stored without', () => {
  expect(LATER_FIELDS).toStrictEqual(NewTemplate.omit({ name: true, nestId: true }).parse({ startup: '-' }))
})
