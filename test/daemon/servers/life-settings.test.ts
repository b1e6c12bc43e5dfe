import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { getLogs } from '../../../src/shared/api/console.ts'
import { powerServer, startServer } from '../../../src/shared/api/power.ts'
import {
  answerEula,
  answerServerEula,
  listServerVariables,
  resetCrashCount,
  setRestartPolicy,
  setServerVariables,
} from '../../../src/shared/api/server-life.ts'
import { patchServer, updateServer } from '../../../src/shared/api/servers.ts'
import { getTemplate, importEgg } from '../../../src/shared/api/templates.ts'
import type { ServerReport } from '../../../src/shared/protocol/server.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { raw, Stage, type StageNode, until } from './stage.ts'

const CAPABILITIES = ['servers@1', 'console@1', 'node@1', 'server-life@1']
const ASKING = `
if ! grep -q '^eula=true' eula.txt 2>/dev/null; then
  printf '#You agree to https://example.test/eula by true.\\neula=false\\n' > eula.txt
  exit 0
fi
echo ready; exec sleep 1000
`

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open({ agent: true })
})
afterAll(() => stage.close())
afterEach(() => stage.closeReaders())

const of = (server: { id: string }) => ({ params: { serverId: server.id as never } })
const limits = (value: 'cgroup-v1' | 'watchdog') => [
  { name: 'process' as const, ok: true, reason: null, limits: value },
]
const specOf = async (node: StageNode, serverId: string, generation: number, about = {}) => {
  const peer = await stage.peer(node, about)
  const found = await peer.until('the specification', () =>
    peer.of('command').find((frame) => frame.serverId === serverId && frame.generation >= generation),
  )
  return { peer, spec: 'spec' in found.command ? found.command.spec : undefined }
}

/** The game of a peer has ended. */
async function rests(peer: AgentPeer, id: string): Promise<void> {
  const { generation } = await stage.get(id)
  const ended = report(id, { power: 'offline', pid: null, uptimeMs: null, generation })
  peer.event({ type: 'server.state', report: ended, previous: 'running', commandId: null })
  await stage.status(id, 'stopped')
}

test('boot policy, start order, stop time and time zone are shown, checked, edited, and reach the node', async () => {
  const node = await stage.node()
  const template = await stage.template({ stopTimeoutSeconds: 30 })
  const owner = await stage.person()
  const plain = await stage.create(template, node, { ownerId: owner.id })
  expect(plain).toMatchObject({ bootPolicy: 'unless-stopped', startOrder: 0, stopTimeoutSeconds: null, timeZone: null })
  const given = { bootPolicy: 'always', startOrder: -3, stopTimeoutSeconds: 0, timeZone: 'europe/berlin' } as const
  const changed = await stage.admin.call(patchServer, { ...of(plain), body: given })
  expect(changed).toMatchObject({ ...given, timeZone: 'Europe/Berlin', appliesAt: 'now' })
  const { spec } = await specOf(node, plain.id, changed.generation)
  expect(spec).toMatchObject({
    boot: { policy: 'always', order: -3 },
    timeZone: 'Europe/Berlin',
    stop: { timeoutMs: 0 },
  })
  for (const body of [{ timeZone: 'Mars/Base' }, { stopTimeoutSeconds: 601 }, { bootPolicy: 'perhaps' }]) {
    const [field] = Object.keys(body)
    const refused = await raw(stage.panel, patchServer, `/api/servers/${plain.id}`, body)
    expect([refused.status, refused.fields]).toEqual([400, [`body.${field}`]])
  }
  // Who starts before whom is the operator's.
  await owner.client.call(patchServer, { ...of(plain), body: { bootPolicy: 'never', stopTimeoutSeconds: null } })
  expect(await refusal(owner.client.call(patchServer, { ...of(plain), body: { startOrder: 1 } }))).toMatchObject({
    code: 'PERMISSION_DENIED',
  })
})

test('an edit says when it is in force, and less memory than is used is refused with the figures', async () => {
  const node = await stage.node()
  const template = await stage.template({ variables: [{ name: 'WORD', default: 'one' }] })
  const server = await stage.create(template, node, { allocatedMemoryMb: 512 })
  const running = report(server.id)
  const peer = await stage.peer(node, { capabilities: CAPABILITIES, runtimes: limits('cgroup-v1'), servers: [running] })
  await stage.status(server.id, 'running')
  const edit = (body: object) => stage.admin.call(updateServer, { ...of(server), body })
  expect(await edit({ allocatedMemoryMb: 1024 })).toMatchObject({ appliesAt: 'now', allocatedMemoryMb: 1024 })
  expect(await edit({ allocatedMemoryMb: 900, environment: { WORD: 'two' } })).toMatchObject({
    appliesAt: 'next-start',
  })
  expect(await edit({ description: 'x' })).toMatchObject({ appliesAt: 'now' })
  const nothing = { cpuCores: null, diskMb: null, ioReadBytes: null, ioWriteBytes: null, networkRxBytes: null }
  const usage = { serverId: server.id, memoryMb: 700.2, networkTxBytes: null, processes: 1, uptimeMs: 1, ...nothing }
  peer.send({ type: 'stats', servers: [usage] })
  await until('the usage', async () => ((await stage.get(server.id)).memoryUsageMb === null ? undefined : true))
  const refused = await refusal(edit({ allocatedMemoryMb: 600 }))
  expect(refused).toMatchObject({ code: 'SERVER_MUST_BE_STOPPED', meta: { usedMemoryMb: 701, wantedMemoryMb: 600 } })
  expect(await edit({ allocatedMemoryMb: 750 })).toMatchObject({ appliesAt: 'now' })
  await rests(peer, server.id)

  const other = await stage.node()
  const watched = await stage.create(template, other)
  const second = await stage.peer(other, {
    capabilities: CAPABILITIES,
    runtimes: limits('watchdog'),
    servers: [report(watched.id)],
  })
  await stage.status(watched.id, 'running')
  const later = await stage.admin.call(updateServer, { ...of(watched), body: { allocatedMemoryMb: 128 } })
  expect(later.appliesAt).toBe('next-start')
  await rests(second, watched.id)
})

test('a game that asks for its agreement is told to people, accepted by one of them, and starts then', async () => {
  const template = await stage.template({
    startup: ASKING,
    startupDetection: { done: [{ kind: 'contains', value: 'ready' }], stripAnsi: true },
    eula: { file: 'eula.txt', text: 'Read this first.' },
  })
  const owner = await stage.person()
  const server = await stage.create(template, stage.here, { ownerId: owner.id, restartPolicy: 'always' })
  await stage.status(server.id, 'stopped')
  expect(await refusal(stage.admin.call(answerServerEula, { ...of(server), body: { accepted: true } }))).toMatchObject({
    code: 'EULA_NOT_PENDING',
  })
  const events = stage.watch(`${server.id}/events`)
  await events.until('the greeting', (reader) => reader.of('connected')[0])
  await owner.client.call(startServer, of(server))
  const frame = await events.until('the agreement', (reader) => reader.of('eula_required')[0])
  expect(frame.data).toMatchObject({ type: 'eula_required', serverId: server.id, serverUuid: server.uuid })
  expect(frame.data).toMatchObject({
    eulaServerUuid: server.uuid,
    eulaText: expect.stringContaining('Read this first.'),
  })
  const asked = await until('the reason', async () => {
    const now = await stage.get(server.id)
    return now.status === 'stopped' && now.eula !== null ? now : undefined
  })
  expect(asked).toMatchObject({ eula: { state: 'pending', file: 'eula.txt' }, crashCount: 0, nextRestartAt: null })
  expect(asked.reason).toContain('panel servers eula accept')
  // Who comes to the console later is asked too.
  const console = stage.watch(`${server.id}/console/stream`)
  const shown = await console.until('the agreement', (reader) => reader.of('eula_required')[0])
  expect(shown.data).toMatchObject({ eulaText: expect.stringContaining('https://example.test/eula') })

  const stranger = await stage.person()
  const body = { serverId: server.id, accepted: true }
  expect(await refusal(stranger.client.call(answerEula, { body }))).toMatchObject({ code: 'PERMISSION_DENIED' })
  await owner.client.call(answerServerEula, { ...of(server), body: { accepted: false } })
  await until('the refusal', async () => ((await stage.get(server.id)).eula?.state === 'declined' ? true : undefined))
  await owner.client.call(answerEula, { body })
  const [row] = await stage.audits(server.id, 'server.eula')
  expect(row).toMatchObject({ userId: owner.id, details: { accepted: true, file: 'eula.txt' } })
  await until('the answer', async () => ((await stage.get(server.id)).eula === null ? true : undefined))
  await owner.client.call(startServer, of(server))
  expect(await stage.status(server.id, 'running')).toMatchObject({ eula: null, reason: null })
  await stage.admin.call(powerServer, { ...of(server), body: { action: 'kill' } })
})

test('programs of a server see its time zone, and that of the node without one', async () => {
  const startup = `date +'date %z'; "$PANEL_NODE" -p '"node " + Intl.DateTimeFormat().resolvedOptions().timeZone'; echo ready; read -r x`
  const template = await stage.template({ startup, startupDetection: { done: [{ kind: 'contains', value: 'ready' }] } })
  const said = async (timeZone: string | null): Promise<string[]> => {
    const server = await stage.create(template, stage.here, { timeZone, start: true })
    await stage.status(server.id, 'running')
    const { logs } = await stage.admin.call(getLogs, { ...of(server), query: { lines: 50 } })
    await stage.admin.call(powerServer, { ...of(server), body: { action: 'kill' } })
    return logs.map(({ data }) => data).filter((line) => /^(date|node) /.test(line))
  }
  // Neither has daylight saving time.
  expect(await said('Asia/Kolkata')).toEqual(['date +0530', 'node Asia/Calcutta'])
  expect(await said('America/Phoenix')).toEqual(['date -0700', 'node America/Phoenix'])
  expect((await said(null))[1]).toBe(`node ${Intl.DateTimeFormat().resolvedOptions().timeZone}`)
})

test('a program listens on the port of players and, by the template, on the one behind it', async () => {
  const python = '"{{SERVER_PORT}}" --bind "{{SERVER_IP}}" --directory . '
  const template = await stage.template({
    startup: `mkdir -p game map; echo game > game/name; echo map > map/name; (cd game && exec python3 -m http.server ${python}) &
      cd map && exec python3 -u -m http.server ${python.replace('SERVER_PORT', 'MAP_PORT')}`,
    startupDetection: { done: [{ kind: 'contains', value: 'Serving HTTP' }] },
    ports: [{ name: 'map', protocol: 'tcp', offset: 1, variable: 'MAP_PORT' }],
  })
  const server = await stage.create(template, stage.here, { primaryPort: undefined, start: true })
  await stage.status(server.id, 'running')
  const [players, map] = server.ports
  expect(map).toMatchObject({ name: 'map', port: server.primaryPort + 1 })
  for (const [port, name] of [
    [players, 'game'],
    [map, 'map'],
  ] as const) {
    const answer = await until(`an answer of ${name}`, async () => {
      const response = await fetch(`http://${port?.ip}:${port?.port}/name`).catch(() => undefined) // it has not begun to listen
      return response?.ok === true ? await response.text() : undefined
    })
    expect(answer).toBe(`${name}\n`)
  }
  await stage.admin.call(powerServer, { ...of(server), body: { action: 'kill' } })
})

test('an egg with the feature eula becomes a template that asks', async () => {
  const egg = {
    meta: { version: 'PTDL_v2', update_url: null },
    name: `Asking egg ${stage.next()}`,
    docker_images: { only: 'registry.example/game:1' },
    startup: './game',
    features: ['eula', 'java_version'],
    config: { files: '{}', startup: '{"done":"up"}', logs: '{}', stop: 'stop' },
    scripts: { installation: { script: '', container: '', entrypoint: 'sh' } },
    variables: [],
  }
  const { id } = await stage.admin.call(importEgg, { body: egg })
  const template = await stage.admin.call(getTemplate, { params: { templateId: id } })
  expect(template).toMatchObject({ eula: { file: 'eula.txt' }, features: { eula: true, java_version: true } })
})

test('restart policy and crashes: the policy is changed, and crashes are forgiven by the node', async () => {
  const node = await stage.node()
  const server = await stage.create(await stage.template(), node)
  const crashed: Partial<ServerReport> = {
    power: 'offline',
    pid: null,
    crash: { count: 3, crashed: true, nextRestartMs: null },
  }
  const peer = await stage.peer(node, { capabilities: CAPABILITIES, servers: [report(server.id, crashed)] })
  await stage.status(server.id, 'crashed')
  const policy = await stage.admin.call(setRestartPolicy, {
    ...of(server),
    body: { restartPolicy: 'always', maxCrashCount: 9 },
  })
  expect(policy).toEqual({ restartPolicy: 'always', maxCrashCount: 9 })
  expect(await stage.get(server.id)).toMatchObject(policy)
  const wrong = await raw(stage.panel, setRestartPolicy, `/api/servers/${server.id}/restart-policy`, {
    maxCrashCount: 101,
  })
  expect([wrong.status, wrong.fields]).toEqual([400, ['body.maxCrashCount']])
  await stage.admin.call(resetCrashCount, of(server))
  const order = await peer.until('the order', () =>
    peer.of('command').find(({ command }) => command.op === 'reset-crashes'),
  )
  peer.finish(order)
  const { generation } = order
  peer.event({
    type: 'server.state',
    report: report(server.id, { ...crashed, generation, crash: { count: 0, crashed: true, nextRestartMs: null } }),
    previous: 'offline',
    commandId: order.id,
  })
  await until('no crashes', async () => ((await stage.get(server.id)).crashCount === 0 ? true : undefined))
  const [row] = await stage.audits(server.id, 'server.reset_crash_count')
  expect(row?.details).toMatchObject({ crashCount: 3 })
})

test('variables are listed with masks, and changed by their names alone, with their rules', async () => {
  const node = await stage.node()
  const template = await stage.template({
    variables: [
      { name: 'WORD', default: 'one', rules: ['required', 'max:5'] },
      { name: 'SLOTS', default: '8', rules: ['integer', 'between:1,64'] },
      { name: 'RCON', secret: true, default: 'initial-secret' },
      { name: 'FIXED', default: 'a', userEditable: false },
    ],
  })
  const owner = await stage.person()
  const server = await stage.create(template, node, { ownerId: owner.id, environment: { RCON: 'hunter2-secret' } })
  const set = (body: Record<string, string | number>) => owner.client.call(setServerVariables, { ...of(server), body })
  const listed = await owner.client.call(listServerVariables, of(server))
  expect(listed.map(({ name, value }) => [name, value])).toEqual([
    ['WORD', 'one'],
    ['SLOTS', '8'],
    ['RCON', '********'],
    ['FIXED', 'a'],
  ])
  expect(JSON.stringify(listed)).not.toContain('-secret')
  expect(listed[0]).toMatchObject({ rules: ['required', 'max:5'], required: false, input: 'text', default: 'one' })
  expect(await set({ SLOTS: 16, RCON: '********' })).toMatchObject({ SLOTS: '16', WORD: 'one', RCON: '********' })
  const wrong = set({ SLOTS: 100, WORD: 'far too long', NOBODY: '1' })
  await expect(wrong).rejects.toThrow('NOBODY is no variable of the template')
  const refused = await refusal(wrong)
  expect(refused.code).toBe('VALIDATION_ERROR')
  expect(refused.fields.sort()).toEqual(['body.NOBODY', 'body.SLOTS', 'body.WORD'])
  expect(await refusal(set({ FIXED: 'b' }))).toMatchObject({ code: 'PERMISSION_DENIED' })
  const stored = await stage.db.read
    .selectFrom('server')
    .select('environment')
    .where('id', '=', server.id)
    .executeTakeFirstOrThrow()
  expect(JSON.parse(stored.environment)).toMatchObject({ SLOTS: '16', RCON: 'hunter2-secret' })
  expect(JSON.stringify(await stage.audits(server.id, 'server.variables_update'))).toContain('16')
})
