import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { getLogs } from '../../src/shared/api/console.ts'
import { reinstallServer, startServer } from '../../src/shared/api/power.ts'
import { CAPABILITIES } from '../../src/shared/protocol/define.ts'
import { AgentStage, gameSpec } from '../agent/agent-stage.ts'
import type { AgentPeer } from '../daemon/agent-peer.ts'
import { GatewayStage } from '../daemon/gateway-stage.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { AgentRequest } from './wire.ts'

describe('an agent', () => {
  let stage: AgentStage
  let used: string[]
  beforeEach(async () => {
    used = []
    stage = await AgentStage.enter()
    await stage.startAgent()
  })
  afterEach(() => stage.leave(used))

  /** Sends a frame as a daemon of another version may, and waits for the reply. */
  async function ask(id: string, request: object) {
    stage.peer.sendRaw(JSON.stringify({ type: 'request', id, request }))
    return await stage.peer.until(`the reply to ${id}`, () => stage.peer.of('reply').find((frame) => frame.id === id))
  }

  test('says what it can do, and answers every request that is declared', async () => {
    const [hello] = stage.peer.of('hello')
    expect(hello?.capabilities).toEqual([...CAPABILITIES, 'runtime.process@1', 'runtime.docker@1'])
    for (const { shape } of AgentRequest.options) {
      const op = shape.op.value
      expect((await ask(`known-${op}`, { op })).error?.code, op).not.toBe('UNSUPPORTED')
    }
  })

  test('refuses a request that it does not know, and one whose input does not fit by the name of the field', async () => {
    expect((await ask('x1', { op: 'files.teleport', serverId: 'srv_a' })).error).toEqual({
      code: 'UNSUPPORTED',
      message: 'This agent does not know the request files.teleport; update it',
    })
    const { error } = await ask('x2', { op: 'console.fetch', serverId: 'srv_a', max: 'all' })
    expect(error).toMatchObject({ code: 'BAD_REQUEST' })
    expect(error?.message).toContain('console.fetch.max')
    expect((await ask('x3', { op: 7 })).error?.code).toBe('UNSUPPORTED')
  })

  test('ends a command that it does not know as failed, so that it is sent no more', async () => {
    const send = (id: string, command: object): void =>
      stage.peer.sendRaw(JSON.stringify({ type: 'command', id, serverId: 'srv_new', generation: 1, command }))
    send('cmd_newer', { op: 'clone', target: 'srv_b' })
    expect(await stage.peer.done('cmd_newer')).toMatchObject({
      ok: false,
      error: { code: 'UNSUPPORTED', message: 'This agent does not know the order clone; update it' },
    })
    send('cmd_wrong', { op: 'delete', keepFiles: 'yes' })
    const { error } = await stage.peer.done('cmd_wrong')
    expect(error).toMatchObject({ code: 'BAD_REQUEST' })
    expect(error?.message).toContain('delete.keepFiles')
    await stage.peer.until('both to be accepted', () => stage.peer.of('command.accepted').length === 2)
  })

  test('reports how far an installation is, ends it when it is cancelled, and says what a deletion removed', async () => {
    used.push('srv_slow')
    const install = {
      script: 'touch "$MNT_SERVER/a" "$MNT_SERVER/b"; echo copied; sleep 60',
      entrypoint: 'sh',
      timeoutMs: 90_000,
    }
    const spec = gameSpec('srv_slow', 1, { install })
    const command = { op: 'install' as const, spec, wipe: true, thenStart: false }
    stage.peer.send({ type: 'command', id: 'cmd_slow', serverId: 'srv_slow', generation: 1, command })
    const report = await stage.peer.until('a report', () => stage.peer.of('command.progress')[0])
    expect(report).toMatchObject({ id: 'cmd_slow', serverId: 'srv_slow', progress: { step: 'emptying' } })
    await stage.peer.until('the next step', () =>
      stage.peer.of('command.progress').find((frame) => (frame.progress as { step: string }).step === 'script'),
    )
    await stage.peer.request({ op: 'console.subscribe', serverId: 'srv_slow', after: 0 })
    await stage.peer.until('the script', () => stage.peer.lines('srv_slow').some(([, , , text]) => text === 'copied'))
    stage.peer.send({ type: 'command.cancel', id: 'cmd_slow', serverId: 'srv_slow' })
    expect(await stage.peer.done('cmd_slow')).toMatchObject({
      ok: false,
      error: { code: 'INTERRUPTED', message: 'The order was cancelled' },
    })
    const done = await stage.peer.order('srv_slow', 2, { op: 'delete', keepFiles: false })
    expect(done).toMatchObject({ ok: true, result: { entries: 2 } })
  })
})

describe('a daemon', () => {
  let panel: TestPanel
  let stage: GatewayStage
  beforeAll(async () => {
    panel = await startPanel()
    stage = new GatewayStage(panel)
  })
  afterAll(() => panel.close())
  afterEach(() => stage.clear())

  async function enter(
    capabilities?: string[],
  ): Promise<{ peer: AgentPeer; serverId: Awaited<ReturnType<typeof stage.server>>['id'] }> {
    const node = await stage.node()
    const { id: serverId } = await stage.server(node)
    const peer = await stage.connect(node)
    await peer.enter(capabilities === undefined ? {} : { capabilities })
    return { peer, serverId }
  }

  test('refuses what the agent of a node is too old for, and sends nothing', async () => {
    const { peer, serverId } = await enter(['servers@1', 'node@1', 'something-newer@3'])
    await expect(panel.client.call(getLogs, { params: { serverId }, query: {} })).rejects.toMatchObject({
      code: 'AGENT_VERSION',
      message: expect.stringContaining('update the agent'),
      meta: { capability: 'console@1', agentVersion: '9.9.9-test' },
    })
    expect(peer.requests.filter(({ op }) => op === 'console.fetch')).toEqual([])
  })

  test('ends a command that the agent is too old for', async () => {
    const { peer, serverId } = await enter(['node@1'])
    const events = await stage.follow(serverId)
    await panel.client.call(startServer, { params: { serverId }, body: {} })
    const done = await events.until('the end of an order', (r) => r.of('server_command_done')[0])
    expect(done.data).toMatchObject({ ok: false, code: 'UNSUPPORTED' })
    expect(String(done.data['error'])).toContain('update the agent')
    expect(peer.of('command')).toEqual([])
  })

  test('passes on how far an order is and what it answered, and only what its definition names', async () => {
    const { peer, serverId } = await enter()
    const events = await stage.follow(serverId)
    const command = await peer.until('the first order', () => peer.of('command')[0])
    const progress = (id: string, report: unknown): void =>
      peer.send({ type: 'command.progress', id, serverId, progress: report })
    progress('cmd_unknown', { step: 'script' })
    progress(command.id, { step: 'script' })
    peer.send({ type: 'command.accepted', id: command.id })
    peer.event({
      type: 'command.done',
      commandId: command.id,
      serverId,
      ok: true,
      noop: false,
      error: null,
      result: { a: 1 },
    })
    const done = await events.until('its end', (r) => r.of('server_command_done')[0])
    // An order to take over the specification reports nothing and answers nothing.
    expect(done.data).toMatchObject({ ok: true, result: null })
    await panel.client.call(reinstallServer, { params: { serverId }, body: {} })
    const install = await peer.until('the installation', () =>
      peer.of('command').find(({ command: { op } }) => op === 'install'),
    )
    progress(install.id, { step: 'nonsense' })
    progress(install.id, { step: 'script', secret: 'x' })
    const report = await events.until('a report', (r) => r.of('server_command_progress')[0])
    expect(report.data).toMatchObject({ serverId, commandId: install.id, op: 'install', progress: { step: 'script' } })
    expect(report.data['progress']).not.toHaveProperty('secret')
    expect(events.of('server_command_progress')).toHaveLength(1)
  })
})
