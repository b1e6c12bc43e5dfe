import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createLocation } from '../../src/shared/api/locations.ts'
import { createServer } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { runBriefly } from './command-walk.ts'
import { POOLS } from './pool-paths.ts'

let panel: TestPanel
const done = new Set<string>()

beforeAll(async () => {
  panel = await startPanel({ agent: true })
  const startup = 'echo "at $SERVER_IP:$SERVER_PORT"; exec sleep 1000'
  const startupDetection = { done: [{ kind: 'contains' as const, value: 'at ' }] }
  const template = await panel.client.call(createTemplate, { body: { name: 'sleep', startup, startupDetection } })
  const place = { templateId: template.id, nodeId: panel.nodeId, locationId: panel.locationId }
  const size = { allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64 }
  for (const [name, primaryPort] of [
    ['one', 18_101],
    ['two', 18_102],
  ] as const) {
    await panel.client.call(createServer, { body: { name, ...place, ...size, primaryPort } })
  }
})
afterAll(() => panel.close())

async function run(exit: number, line: string, input?: string): Promise<string> {
  const args = line.split(' ')
  const env = { HOME: panel.home, PANEL_URL: panel.url, PANEL_TOKEN: panel.adminToken }
  const ran = await runBriefly(args, { env, ...(input === undefined ? {} : { input }) })
  expect(ran.code, `panel ${line}: ${ran.stderr}`).toBe(exit)
  done.add(args.slice(0, 2).join(' '))
  return exit === 0 || exit === 3 ? ran.stdout : ran.stderr
}
const json = async (line: string) => JSON.parse(await run(0, `${line} -o json`))

/** Commands that do not meet, side by side: what each of them says must contain the text. */
const say = (...wanted: readonly (readonly [exit: number, line: string, text: string])[]) =>
  Promise.all(wanted.map(async ([exit, line, text]) => expect(await run(exit, line)).toContain(text)))

it('gives a server an address of a network, and the game is told of it', {
  tags: ['long'],
  timeout: 60_000,
}, async () => {
  const create = 'ip-pools create --node local --network lan --cidr 127.0.9.0/29'
  const pool = await json(`${create} --gateway 127.0.9.1 --reserve 127.0.9.2,127.0.9.3`)
  expect(pool).toMatchObject({ networkName: 'lan', total: 6, availableCount: 3, reserved: ['127.0.9.2', '127.0.9.3'] })
  await say(
    [7, create, 'ADMIN_IP_POOL_OVERLAP'],
    [8, `${create.replace('lan', 'wan')} --gateway 10.0.0.1`, '--gateway'],
    [0, 'ip-pools next lan -o id', '127.0.9.4\n'],
  )
  const make = 'servers create --template sleep --memory 64 --cpu 0.1 --disk 64 --network lan --port 18100'
  const server = await json(`${make} --name pooled --start --wait`)
  expect(server).toMatchObject({ status: 'running', primaryIp: '127.0.9.4', networkMode: 'lan' })
  await say(
    [0, 'console logs pooled', 'at 127.0.9.4:18100'],
    [0, 'ip-pools usage lan', 'pooled'],
    [7, 'ip-pools delete lan --yes', 'ADMIN_IP_POOL_IN_USE'],
    [8, 'ip-pools edit lan --end 127.0.9.3', '127.0.9.4'],
  )
  expect(await json('ip-pools edit lan --end 127.0.9.4')).toMatchObject({ rangeEnd: '127.0.9.4', availableCount: 0 })
  await say(
    [7, 'ip-pools next lan', 'no free address'],
    [0, `ip-pools view ${pool.id} --json usedCount`, '1'],
    [0, 'ip-pools list --node local', '127.0.9.0/29'],
    [0, 'ip-pools networks local -o csv', 'lan,127.0.9.0/29,0'],
  )
  await run(0, 'servers kill pooled --wait')
  await run(0, 'servers delete pooled --confirm pooled --wait')
  await run(0, 'ip-pools delete lan --yes')
})

it('finds the one that is named so among many whose names contain the word', { timeout: 60_000 }, async () => {
  const names = [...Array.from({ length: 101 }, (_, i) => `a-x-${i}`), 'x']
  await Promise.all(names.map((name) => panel.client.call(createLocation, { body: { name } })))
  await say([0, 'locations view x -o name', 'x\n'], [6, 'locations view y', "there is no location 'y'"])
})

it('pins a server to its template, and starts it by a line that it has chosen', { timeout: 60_000 }, async () => {
  expect(await json('servers pin one')).toMatchObject({ name: 'one', templateChanged: false })
  await run(0, 'templates edit sleep --description changed')
  await say([0, 'servers view one -o csv', 'yes'], [8, 'servers edit two --startup-name Fast', '--startup-name'])
  expect(await json('servers pin one --refresh')).toMatchObject({ templateChanged: false })
  expect(await json('servers unpin one')).toMatchObject({ pinnedAt: null })
})

it('suspends servers, and acts on several at once', { tags: ['long'], timeout: 60_000 }, async () => {
  const file = join(panel.home, 'servers.txt')
  await writeFile(file, '# unpaid\none\n\ntwo\n')
  const why = { status: 'suspended', suspensionReason: 'unpaid' }
  expect(await json(`servers suspend --from ${file} --reason unpaid`)).toMatchObject([why, why])
  await say([7, 'servers start one', 'SERVER_SUSPENDED'], [7, 'servers suspend one', 'SERVER_ALREADY_SUSPENDED'])
  expect(await json('servers unsuspend one')).toMatchObject({ name: 'one', status: 'stopped' })
  const reported = await run(3, 'servers bulk start --from - -o csv', 'one\ntwo\n')
  expect(reported.split('\r\n').slice(1)).toMatchObject(
    [/^one,success,/, /^two,failed,SERVER_SUSPENDED,/, ''].map(matching),
  )
  await say(
    [7, 'servers bulk restart two', '0 done, 0 there already, 1 failed'],
    [6, 'servers bulk stop one srv_00000000000000000000000000', 'NOT_FOUND'],
    [2, 'servers bulk delete one', '--yes'],
    [2, 'servers bulk stop --from /dev/null', 'names no server'],
    [0, 'servers status two one -o csv', 'two,suspended,'],
    [0, 'servers list --admin --search local -o csv', 'one,'],
  )
  expect(POOLS.filter((path) => !done.has(path))).toEqual([])
})

const matching = (text: RegExp | string) => (typeof text === 'string' ? text : expect.stringMatching(text))
