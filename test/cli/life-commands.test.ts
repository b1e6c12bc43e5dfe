import { afterAll, beforeAll, expect, it } from 'vitest'
import { report } from '../daemon/agent-peer.ts'
import { Stage, until } from '../daemon/servers/stage.ts'
import { runBriefly } from './command-walk.ts'
import { LIFE } from './life-paths.ts'

let stage: Stage
const done = new Set<string>()

beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage.close())

async function run(exit: number, args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  const { home, url, adminToken } = stage.panel
  const ran = await runBriefly([...args], { env: { HOME: home, PANEL_URL: url, PANEL_TOKEN: adminToken } })
  expect(ran.code, `panel ${args.join(' ')}: ${ran.stderr}`).toBe(exit)
  done.add(LIFE.find((path) => args.join(' ').startsWith(path)) ?? '')
  return ran
}

it('policies, agreements, crashes and variables of a server by the command line', { timeout: 60_000 }, async () => {
  const node = await stage.node()
  const template = await stage.template({ variables: [{ name: 'WORD', default: 'one', rules: ['max:5'] }] })
  const server = await stage.create(template, node, { name: 'lobby' })
  const eula = { state: 'pending', file: 'eula.txt', text: 'Agree by eula=true', asked: 1 } as const
  const rest = { power: 'offline', pid: null, uptimeMs: null } as const
  const capabilities = ['servers@1', 'console@1', 'node@1', 'server-life@1']
  const peer = await stage.peer(node, { capabilities, servers: [report(server.id, { ...rest, eula })] })
  await until('the agreement', async () => ((await stage.get(server.id)).eula === null ? undefined : true))

  const edit = ['--boot', 'always', '--boot-order', '-2', '--stop-timeout', '90s', '--time-zone', 'Asia/Tokyo']
  await run(0, ['servers', 'edit', 'lobby', ...edit])
  expect(await stage.get(server.id)).toMatchObject({
    ...{ bootPolicy: 'always', startOrder: -2, stopTimeoutSeconds: 90, timeZone: 'Asia/Tokyo' },
  })
  await run(2, ['servers', 'edit', 'lobby', '--stop-timeout', '1500ms'])
  await run(0, ['servers', 'edit', 'lobby', '--stop-timeout', 'default', '--time-zone', 'node'])
  expect(await stage.get(server.id)).toMatchObject({ stopTimeoutSeconds: null, timeZone: null })
  await run(0, ['servers', 'edit', 'lobby', '--mount', '/srv/maps:maps:ro'])
  expect((await stage.get(server.id)).mounts).toEqual([{ source: '/srv/maps', target: 'maps', readOnly: true }])
  await run(0, ['servers', 'edit', 'lobby', '--mount', ''])
  expect((await stage.get(server.id)).mounts).toEqual([])

  const policy = await run(0, ['servers', 'policy', 'lobby', '--restart', 'never', '--max', '2', '-o', 'json'])
  expect(JSON.parse(policy.stdout)).toEqual({ restartPolicy: 'never', maxCrashCount: 2 })
  await run(0, ['servers', 'reset-crash-count', 'lobby'])

  expect((await run(0, ['servers', 'variables', 'list', 'lobby'])).stdout).toMatch(/WORD +one/)
  await run(0, ['servers', 'variables', 'set', 'lobby', 'WORD=two'])
  expect((await stage.get(server.id)).environment).toEqual({ WORD: 'two' })
  expect((await run(8, ['servers', 'variables', 'set', 'lobby', 'WORD=far-too-long'])).stderr).toContain('WORD')
  await run(2, ['servers', 'variables', 'set', 'lobby'])

  // Without a terminal the agreement is shown, and nobody has agreed.
  const asked = await run(2, ['servers', 'eula', 'accept', 'lobby'])
  expect(asked.stderr).toContain('Agree by eula=true')
  expect(asked.stderr).toContain('--yes')
  expect(peer.requests.filter(({ op }) => op === 'server.eula')).toEqual([])
  await run(0, ['servers', 'eula', 'decline', 'lobby'])
  await run(0, ['servers', 'eula', 'accept', 'lobby', '--yes'])
  const answers = peer.requests.flatMap((request) => (request.op === 'server.eula' ? [request.accepted] : []))
  expect(answers).toEqual([false, true])
  expect([...done].filter((path) => path !== '').sort()).toEqual(LIFE)
})
