import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { sendCommand } from '../../src/shared/api/console.ts'
import { deleteServer } from '../../src/shared/api/servers.ts'
import { report } from './agent-peer.ts'
import { ConsoleReader, range } from './console-reader.ts'
import { ConsoleStage } from './console-stage.ts'
import { refusal } from './place-panel.ts'

let stage: ConsoleStage
beforeAll(async () => {
  stage = await ConsoleStage.open()
})
afterAll(() => stage.panel.close())
beforeEach(() => stage.begin())
afterEach(() => stage.end())

test('types a command after the node has taken it, and audits the start of it', async () => {
  const long = `say ${'ä'.repeat(400)}`
  expect(await stage.command(long)).toMatchObject({ sent: true })
  expect(stage.peer.typed).toEqual([long])
  const rows = await stage.panel.client.page(listAuditLogs, { query: { action: 'server.console_command' } as never })
  const mine = rows.data.find(({ resourceId }) => resourceId === stage.game.id)
  expect(mine?.details).toMatchObject({ command: long.slice(0, 256), length: long.length })
})

test('audits what is typed without what stands behind a telling word', async () => {
  const typed: Readonly<Record<string, string>> = {
    'op ann': 'op ann',
    'say  all is well': 'say  all is well',
    login: 'login',
    '/login hunter2': '/login ********',
    'register hunter2 hunter2': 'register ********',
    'sv_password "hunter2 again"': 'sv_password ********',
    'rcon.pw hunter2': 'rcon.pw ********',
    'changepass ann hunter2': 'changepass ********',
    'set token=hunter2 quiet': 'set token=******** ********',
    'auth:hunter2': 'auth:********',
    'say the PASSWORD is hunter2': 'say the PASSWORD ********',
  }
  for (const text of Object.keys(typed)) await stage.command(text)
  expect(stage.peer.typed).toEqual(Object.keys(typed))
  const query = { action: 'server.console_command', resourceId: stage.game.id, limit: 100 }
  const rows = await stage.panel.client.call(listAuditLogs, { query })
  expect(rows.map(({ details }) => details?.['command']).reverse()).toEqual(Object.values(typed))
})

test('limits the commands of a caller to a server', { tags: ['long'] }, async () => {
  const typing = Array.from({ length: 600 }, (_, i) => stage.command(`say ${i}`))
  await Promise.all(typing)
  // Room for more comes back with time, but slower than this.
  const andMore = async (): Promise<void> => {
    for (let round = 0; round < 100; round++) {
      await Promise.all(Array.from({ length: 50 }, () => stage.command('one more')))
    }
  }
  const over = await refusal(andMore())
  expect(over.code).toBe('RATE_LIMITED')
  expect(Number(over.meta['retryAfterSeconds'])).toBeGreaterThan(0)
  expect(stage.peer.typed.filter((text) => text.startsWith('say '))).toHaveLength(600)
})

test('refuses a command that cannot reach a game', { tags: ['long'] }, async () => {
  stage.peer.silent.add('console.input')
  expect((await refusal(stage.command('slow'))).code).toBe('AGENT_TIMEOUT')
  stage.peer.event({
    type: 'server.state',
    report: report(stage.game.id, { power: 'offline', pid: null }),
    previous: 'running',
    commandId: null,
  })
  await stage.status('stopped')
  const stopped = await refusal(stage.command('list'))
  expect(stopped).toMatchObject({
    code: 'SERVER_INVALID_STATE',
    meta: { currentStatus: 'stopped', allowed: ['starting', 'running', 'stopping'] },
  })
  await stage.peer.leave()
  await stage.status('stopped')
  expect(
    (
      await refusal(
        stage.panel.client.call(sendCommand, { params: { serverId: 'srv_none' as never }, body: { command: 'x' } }),
      )
    ).code,
  ).toBe('SERVER_NOT_FOUND')
  expect((await refusal(stage.command('two\nlines'))).fields).toEqual(['body.command'])
})

test('audits a command before it leaves, and once more when nobody can say whether it has arrived', async () => {
  stage.peer.silent.add('console.input')
  const text = `say ${stage.game.id}`
  const typing = refusal(stage.command(text))
  await stage.peer.until('the line', () => stage.peer.requests.some(({ op }) => op === 'console.input'))
  const rows = async () => {
    const query = { action: 'server.console_command', resourceId: stage.game.id }
    return (await stage.panel.client.call(listAuditLogs, { query })).map(({ details }) => details)
  }
  const command = { command: text, length: text.length }
  expect(await rows()).toEqual([command])
  await stage.peer.leave()
  expect((await typing).code).toBe('NODE_OFFLINE')
  expect(await rows()).toEqual([{ ...command, outcome: 'unknown' }, command])
})

test('pages the log by ids and instants, and by stream', async () => {
  stage.peer.log(stage.game.id).append(100)
  const seqs = async (query: Record<string, string | number>) => (await stage.logs(query)).logs.map(({ seq }) => seq)
  expect(await seqs({ lines: 5 })).toEqual(range(96, 100))
  expect(await seqs({ lines: 5, before: 'epocha-50' })).toEqual(range(45, 49))
  expect(await seqs({ lines: 5, after: 'epocha-50' })).toEqual(range(51, 55))
  expect(await seqs({ lines: 100, after: 'epocha-50', before: 'epocha-54' })).toEqual(range(51, 53))
  expect(await seqs({ lines: 3, after: 'other-50' })).toEqual(range(1, 3))
  const at = (seq: number) => new Date(1_700_000_000_000 + seq * 1000).toISOString()
  expect(await seqs({ lines: 3, after: at(70) })).toEqual(range(71, 73))
  expect(await seqs({ lines: 3, before: at(70) })).toEqual(range(67, 69))
  expect(await seqs({ lines: 3, stream: 'stderr' })).toEqual([80, 90, 100])
  expect(await seqs({ lines: 3, stream: 'stderr', after: 'epocha-1' })).toEqual([10, 20, 30])
  expect(await stage.logs({ lines: 1 })).toMatchObject({
    epoch: 'epocha',
    firstSeq: 1,
    lastSeq: 100,
    count: 1,
    requestedLines: 1,
  })
})

test('a server without a log has an empty one', async () => {
  expect(await stage.logs({})).toMatchObject({ logs: [], count: 0, epoch: null })
})

test('refuses a stream of a server that is not there before the first byte', async () => {
  const reader = new ConsoleReader(`${stage.panel.url}/api/servers/srv_none/console/stream`, stage.panel.adminToken)
  expect(await reader.until('the answer', ({ status }) => status > 0 && status)).toBe(404)
})

test('ends the streams of a deleted server', async () => {
  stage.peer.event({
    type: 'server.state',
    report: report(stage.game.id, { power: 'offline', pid: null }),
    previous: 'running',
    commandId: null,
  })
  await stage.status('stopped')
  const reader = stage.watch()
  await reader.until('the greeting', (r) => r.of('connected')[0])
  await stage.panel.client.call(deleteServer, { params: { serverId: stage.game.id }, query: {} as never } as never)
  const order = await stage.peer.until('the deletion', () =>
    stage.peer.of('command').find((frame) => frame.command.op === 'delete'),
  )
  stage.peer.finish(order)
  await reader.until('the end', ({ ended }) => ended)
  expect(reader.of('error')[0]?.data).toMatchObject({ error: 'server_deleted', serverId: stage.game.id })
})
