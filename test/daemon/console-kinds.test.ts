import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { powerServer } from '../../src/shared/api/power.ts'
import { getServer } from '../../src/shared/api/servers.ts'
import { createTemplate, getTemplate } from '../../src/shared/api/templates.ts'
import type { AgentErrorCode } from '../../src/shared/protocol/agent-error.ts'
import { CAPABILITIES } from '../../src/shared/protocol/define.ts'
import { runBriefly } from '../cli/command-walk.ts'
import { ConsoleStage } from './console-stage.ts'
import { refusal } from './place-panel.ts'

let stage: ConsoleStage
beforeAll(async () => {
  stage = await ConsoleStage.open()
})
afterAll(() => stage.panel.close())
afterEach(() => stage.end())

const NEW = { capabilities: [...CAPABILITIES] }
const NONE = { console: { kind: 'none' } } as const

/** Types a line, which the agent refuses with this code. */
async function refusedWith(code: AgentErrorCode, message: string) {
  stage.peer.silent.add('console.input')
  const typed = refusal(stage.command('hello'))
  const request = await stage.peer.until('the typed line', () =>
    stage.peer.of('request').find((frame) => frame.request.op === 'console.input'),
  )
  stage.peer.send({ type: 'reply', id: request.id, error: { code, message }, result: null })
  return await typed
}

test('says the kind of console with a template and its servers; one that names none has pipes', async () => {
  await stage.begin()
  const { client } = stage.panel
  const { template } = await client.call(getServer, { params: { serverId: stage.game.id } })
  expect(template.console).toEqual({ kind: 'stdin' })
  const shown = await client.call(getTemplate, { params: { templateId: template.id } })
  expect(shown.console).toEqual({ kind: 'stdin' })
})

test('refuses typing into a game that takes no input, by the word of the agent', async () => {
  await stage.begin(NONE, NEW)
  const { code } = await refusedWith('NO_INPUT', 'This game takes no input from its console')
  expect(code).toBe('CONSOLE_NO_INPUT')
})

test('refuses it itself where the agent is too old to know, which would type the line', async () => {
  await stage.begin(NONE)
  expect(await refusal(stage.command('hello'))).toMatchObject({ code: 'CONSOLE_NO_INPUT' })
  expect(stage.peer.typed).toEqual([])
})

test('says that RCON has failed, as the agent says it', async () => {
  await stage.begin({}, NEW)
  const failed = await refusedWith('RCON_FAILED', 'The game refuses the RCON password')
  expect(failed.code).toBe('CONSOLE_UNAVAILABLE')
})

test('names the field of a line that is too long for the console of the game', async () => {
  await stage.begin({}, NEW)
  stage.peer.silent.add('console.input')
  const env = { HOME: stage.panel.home, PANEL_URL: stage.panel.url, PANEL_TOKEN: stage.panel.adminToken }
  const ran = runBriefly(['console', 'send', stage.game.id, 'hello'], { env })
  const request = await stage.peer.until('the typed line', () =>
    stage.peer.of('request').find((frame) => frame.request.op === 'console.input'),
  )
  const message = 'must have at most 1446 bytes, as the game takes it by RCON'
  stage.peer.send({ type: 'reply', id: request.id, error: { code: 'BAD_REQUEST', message }, result: null })
  const { code, stderr } = await ran
  expect(stderr).toContain(`command: ${message}`)
  expect(code).toBe(8)
})

test('sends a start with another console than pipes only to an agent that knows the kind', async () => {
  const template = { console: { kind: 'pty', columns: 80 }, stopCommand: '^D' } as const
  await stage.begin(template, NEW)
  const first = await restart()
  const sent = await stage.peer.until('the order', () => stage.peer.of('command').find(({ id }) => id === first))
  expect(sent.command).toMatchObject({
    spec: { console: { input: { kind: 'pty', columns: 80 } }, stop: { type: 'signal', value: 'SIGTERM', key: '^D' } },
  })
  await stage.end()

  await stage.begin(template)
  const events = await orderEvents()
  const second = await restart()
  expect(await events.until(second)).toContain('Its template has the console pty')
  expect(stage.peer.of('command').filter(({ id }) => id === second)).toEqual([])
})

async function restart(): Promise<string> {
  const order = { params: { serverId: stage.game.id }, body: { action: 'restart' } } as const
  return (await stage.panel.client.call(powerServer, order)).commandId
}

/** The ends of orders on the server, as its event stream says them. */
async function orderEvents(): Promise<{ until(part: string): Promise<string> }> {
  const url = `${stage.panel.url}/api/servers/${stage.game.id}/events?types=server_command_done`
  const answer = await fetch(url, { headers: { authorization: `Bearer ${stage.panel.adminToken}` } })
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  return {
    async until(part) {
      while (!text.includes(part)) text += (await reader?.read())?.value ?? ''
      await reader?.cancel()
      return text
    },
  }
}

test.each([
  [{ console: { kind: 'file', path: '../other/log' } }, 'body.console.path'],
  [{ console: { kind: 'file', path: '/var/log/syslog' } }, 'body.console.path'],
  [{ console: { kind: 'none' }, stopCommand: 'quit' }, 'body.stopCommand'],
  [{ stopCommand: '^D' }, 'body.stopCommand'],
  [rcon({ port: 'NOWHERE' }), 'body.console.port'],
  [rcon({ passwordVariable: 'NOWHERE' }), 'body.console.passwordVariable'],
  [rcon({ passwordVariable: 'PLAIN' }), 'body.console.passwordVariable'],
  [rcon({ port: 70_000 }), 'body.console.port'],
])('refuses the template %j', async (change, field) => {
  const body = { name: 'Refused', startup: 'true', ...change }
  const refused = await refusal(stage.panel.client.call(createTemplate, { body: body as never }))
  expect(refused.code).toBe('VALIDATION_ERROR')
  expect(refused.fields).toEqual([field])
})

function rcon(change: object): object {
  return {
    console: { kind: 'rcon', protocol: 'source', port: 'RCON_PORT', passwordVariable: 'RCON_PASSWORD', ...change },
    variables: [{ name: 'RCON_PORT', default: '27015' }, { name: 'RCON_PASSWORD', secret: true }, { name: 'PLAIN' }],
  }
}
