import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createServer } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { runPanel } from '../run-panel.ts'
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
  const ran = await runPanel(args, { env, ...(input === undefined ? {} : { input }) })
  expect(ran.code, `panel ${line}: ${ran.stderr}`).toBe(exit)
  done.add(args.slice(0, 2).join(' '))
  return exit === 0 || exit === 3 ? ran.stdout : ran.stderr
}
const json = async (line: string) => JSON.parse(await run(0, `${line} -o json`))

it('gives a server an address of a network, and the game is told of it', { timeout: 30_000 }, async () => {
  const create = 'ip-pools create --node local --network lan --cidr 127.0.9.0/29'
  const pool = await json(`${create} --gateway 127.0.9.1 --reserve 127.0.9.2,127.0.9.3`)
  expect(pool).toMatchObject({ networkName: 'lan', total: 6, availableCount: 3, reserved: ['127.0.9.2', '127.0.9.3'] })
  expect(await run(7, create)).toContain('ADMIN_IP_POOL_OVERLAP')
  expect(await run(8, `${create.replace('lan', 'wan')} --gateway 10.0.0.1`)).toContain('body.gateway')
  expect(await run(0, 'ip-pools next lan -o id')).toBe('127.0.9.4\n')
  const make = 'servers create --template sleep --memory 64 --cpu 0.1 --disk 64 --network lan --port 18100'
  const server = await json(`${make} --name pooled --start --wait`)
  expect(server).toMatchObject({ status: 'running', primaryIp: '127.0.9.4', networkMode: 'lan' })
  expect(await run(0, 'console logs pooled')).toContain('at 127.0.9.4:18100')
  expect(await json('ip-pools usage lan')).toMatchObject([{ ip: '127.0.9.4', serverName: 'pooled' }])
  expect(await run(7, 'ip-pools delete lan --yes')).toContain('ADMIN_IP_POOL_IN_USE')
  expect(await run(8, 'ip-pools edit lan --end 127.0.9.3')).toContain('127.0.9.4')
  expect(await json('ip-pools edit lan --end 127.0.9.4')).toMatchObject({ rangeEnd: '127.0.9.4', availableCount: 0 })
  expect(await run(7, 'ip-pools next lan')).toContain('no free address')
  expect(await json(`ip-pools view ${pool.id}`)).toMatchObject({ usedCount: 1 })
  expect(await run(0, 'ip-pools list --node local')).toContain('127.0.9.0/29')
  expect(await json('ip-pools networks local')).toMatchObject([{ networkName: 'lan', availableCount: 0 }])
  await run(0, 'servers kill pooled --wait')
  await run(0, 'servers delete pooled --confirm pooled --wait')
  await run(0, 'ip-pools delete lan --yes')
  expect(await run(6, 'ip-pools view lan')).toContain('no IP pool')
})

it('suspends servers, and acts on several at once', { timeout: 30_000 }, async () => {
  const file = join(panel.home, 'servers.txt')
  await writeFile(file, '# unpaid\none\n\ntwo\n')
  expect(await json(`servers suspend --from ${file} --reason unpaid`)).toMatchObject([
    { status: 'suspended', suspensionReason: 'unpaid' },
    { status: 'suspended', suspensionReason: 'unpaid' },
  ])
  expect(await run(7, 'servers start one')).toContain('SERVER_SUSPENDED')
  expect(await run(7, 'servers suspend one')).toContain('SERVER_ALREADY_SUSPENDED')
  expect(await json('servers unsuspend one')).toMatchObject({ name: 'one', status: 'stopped' })
  expect(await run(3, 'servers bulk start --from - -o csv', 'one\ntwo\n')).toMatch(
    /one,success(?:.|\n)*two,failed,SERVER_SUSPENDED/,
  )
  expect(await run(7, 'servers bulk restart two')).toBe('0 done, 0 there already, 1 failed\n')
  expect(await run(6, 'servers bulk stop one srv_00000000000000000000000000')).toContain('NOT_FOUND')
  expect(await run(2, 'servers bulk delete one')).toContain('--yes')
  expect(await run(2, 'servers bulk stop --from /dev/null')).toContain('names no server')
  expect(await run(2, 'servers bulk dance one')).toContain('dance')
  const status = 'servers status two one --json name,status,suspensionReason'
  expect(JSON.parse(await run(0, status))).toMatchObject([{ name: 'two', status: 'suspended' }, { name: 'one' }])
  expect(JSON.parse(await run(0, 'servers list --admin --search local --json name,owner.username'))).toHaveLength(2)
  expect([...POOLS].filter((path) => !done.has(path))).toEqual([])
})
