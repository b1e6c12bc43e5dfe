import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { getDbStatus } from '../../src/shared/api/overview.ts'
import { GatewayStage } from '../daemon/gateway-stage.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { walkPanel } from './command-walk.ts'
import { OVERVIEW } from './overview-paths.ts'

let feed: Server
let panel: TestPanel
let stage: GatewayStage
beforeAll(async () => {
  feed = createServer((_, response) => response.end(JSON.stringify({ version: '99.0.0' })))
  await new Promise<void>((resolve) => feed.listen(0, '127.0.0.1', resolve))
  const { port } = feed.address() as AddressInfo // a TCP listener has one
  panel = await startPanel({ env: { PANEL_UPDATES__FEED_URL: `http://127.0.0.1:${port}/` } })
  stage = new GatewayStage(panel)
})
afterAll(async () => {
  await panel.close()
  feed.close()
})
afterEach(() => stage.clear())

const walk = walkPanel(OVERVIEW, () => panel)
const { run, ok, json } = walk
const codeOf = async (args: readonly string[]): Promise<number | null> => (await run(args)).code

describe('the commands of the overview', { timeout: 60_000 }, () => {
  it('stats and dashboard', async () => {
    expect(await json(['stats'])).toMatchObject({ users: 1, servers: 0, nodes: 1 })
    const shown = await json(['dashboard', '--limit', '2'])
    expect(shown.stats).toMatchObject({ servers: 0, nodes: 1 })
    expect(shown.activity).toHaveLength(2)
    expect(await ok(['dashboard'])).toMatch(/SERVERS\s+0 of 0 running[\s\S]*WHO AND TO WHAT/)
    expect(await codeOf(['dashboard', '--limit', '21'])).toBe(8)
  })

  it('health: exit 10 by its flag when a node is away', async () => {
    expect(await json(['health', '--detailed-exitcode'])).toMatchObject({
      status: 'healthy',
      database: 'connected',
      problems: [],
    })
    const node = await stage.node()
    const peer = await stage.connect(node)
    await peer.enter()
    await stage.online(node.nodeId, true)
    await peer.leave()
    await stage.online(node.nodeId, false)
    const ran = await run(['health', '--detailed-exitcode'])
    expect([ran.code, ran.stdout]).toEqual([10, expect.stringContaining('not connected')])
  })

  it('db status: exit 11 when a check finds the file damaged', async () => {
    expect(await ok(['db', 'status'])).toMatch(/INTEGRITY\s+unchecked/)
    const { path } = await panel.client.call(getDbStatus)
    const file = await Connection.open(path, 'existing')
    await file.exec("pragma ignore_check_constraints = on; insert into audit_anchor (id, seq, hash) values (2, 0, '')")
    await file.close()
    const checked = await run(['db', 'status', '--check', '-o', 'json'])
    expect(checked.code).toBe(11)
    expect(JSON.parse(checked.stdout).integrity).toMatchObject({ status: 'damaged' })
    expect(await codeOf(['db', 'status', '--detailed-exitcode'])).toBe(10)
    expect(await codeOf(['db', 'status', '--check', '--timeout', 'soon'])).toBe(2)
  })

  it('update: exit 10 by its flag when there is a newer version', async () => {
    expect(await json(['update', 'check'])).toMatchObject({ latestVersion: '99.0.0', updateAvailable: true })
    expect(await ok(['update', 'status'])).toMatch(/NEWEST\s+99\.0\.0/)
    expect(await codeOf(['update', 'status', '--detailed-exitcode'])).toBe(10)
    expect(await json(['update', 'watch'])).toMatchObject({ state: 'idle' })
    expect(await ok(['update', 'watch', '--once', '-o', 'name'])).toBe('idle\n')
    expect(await codeOf(['update', 'watch', '--interval', '0'])).toBe(2)
  })

  it('nodes stats --watch and servers stats --watch show what agents report', async () => {
    const node = await stage.node()
    const server = await stage.server(node)
    const peer = await stage.connect(node)
    await peer.enter()
    await stage.online(node.nodeId, true)
    const bytes = { networkRxBytes: '1', networkTxBytes: '2' }
    const machine = { cpuPercent: 25, load1: 1, memoryUsageMb: 1, memoryTotalMb: 2, diskUsageMb: 3, diskTotalMb: 4 }
    peer.send({ type: 'health', health: { ...machine, ...bytes, uptimeSeconds: 5, runningServers: 0 } })
    const use = {
      cpuCores: 0.1,
      memoryMb: 9,
      diskMb: 7,
      processes: 1,
      uptimeMs: 5,
      ioReadBytes: '0',
      ioWriteBytes: '0',
    }
    peer.send({ type: 'stats', servers: [{ serverId: server.id, ...use, ...bytes }] })
    const onOutput = (stdout: string) => (stdout.includes('\n') ? ('SIGINT' as const) : undefined)
    const ofNode = await run(['nodes', 'stats', node.nodeId, '--watch', '-o', 'jsonl'], { onOutput })
    expect(ofNode.code).toBe(130)
    expect(JSON.parse(ofNode.stdout)).toMatchObject({ type: 'node_stats', nodeId: node.nodeId, cpuPercent: 25 })
    const table = await run(['servers', 'stats', server.id, '-w'], { onOutput })
    expect(table.stdout).toMatch(/20 %\s+9 MiB\s+7 MiB\s+1\s+-\n/)
    expect(await codeOf(['servers', 'stats', server.id, (await stage.server(node)).id, '--watch'])).toBe(2)
  })

  it('are all tried here', () => {
    expect(walk.left()).toEqual([])
  })
})
