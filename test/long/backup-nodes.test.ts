// @module-tag long
import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createDeploymentToken, createNode, getNode } from '../../src/shared/api/nodes.ts'
import { createServer, deleteServer, getServer, listServers, type Server } from '../../src/shared/api/servers.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { until } from '../e2e/wait.ts'
import { quietPort } from '../ports.ts'

let panel: SplitPanel
let second: ChildProcess
let from: Server
let to: Server
const other = (): string => join(panel.home, 'second')

beforeAll(async () => {
  panel = await SplitPanel.enter()
  const templateId = await panel.makeTemplate('kept', 'echo ready; sleep 1000')
  from = await panel.makeServer('from', templateId)
  const { client } = panel
  const sizes = { maxMemoryMb: 4096, maxCpuCores: 16 }
  const { id: nodeId } = await client.call(createNode, {
    body: { name: 'second', locationId: from.locationId, ...sizes },
  })
  const { deploymentToken } = await client.call(createDeploymentToken, { params: { nodeId }, body: {} })
  const enroll = ['agent', 'enroll', '--url', panel.url, '--token-stdin', '--data-dir', other()]
  expect(await panel.run(enroll, { input: deploymentToken })).toMatchObject({ code: 0 })
  second = panel.spawn(['agent', 'run', '--data-dir', other()])
  await until('the second node is there', async () => (await client.call(getNode, { params: { nodeId } })).isOnline)
  const size = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
  const place = { nodeId, locationId: from.locationId, templateId, primaryPort: await quietPort() }
  const made = await client.call(createServer, { body: { name: 'to', ...size, ...place } })
  to = await until('it is installed', async () => {
    const now = await client.call(getServer, { params: { serverId: made.id } })
    return now.installed && now.status === 'stopped' ? now : undefined
  })
}, 120_000)
afterAll(async () => {
  await panel.client.call(deleteServer, { params: { serverId: to.id } })
  // The node has said so, too: it is ended next.
  await until('it is deleted', async () => (await panel.client.call(listServers, {})).every(({ id }) => id !== to.id))
  expect(existsSync(join(other(), 'servers', to.id))).toBe(false)
  const ended = once(second, 'exit')
  second.kill('SIGTERM')
  await ended
  await panel.leave()
}, 60_000)

const hashOf = (folder: string): string =>
  createHash('sha256')
    .update(readFileSync(join(folder, 'world', 'level.dat')))
    .digest('hex')

it.each(['archive', 'incremental'])(
  'a backup (%s) is restored to a server of another node, all of it and by paths',
  async (kind) => {
    const [here, there] = [panel.filesOf(from.id), join(other(), 'servers', to.id)]
    mkdirSync(join(here, 'world'), { recursive: true })
    writeFileSync(join(here, 'world', 'level.dat'), Buffer.alloc(3_000_000, kind))
    writeFileSync(join(there, 'own'), 'own')
    const created = await panel.run(['backups', 'create', 'from', `--${kind}`, '--name', kind, '--wait', '-o', 'id'])
    expect(created).toMatchObject({ code: 0 })
    const restored = await panel.run([
      'backups',
      'restore',
      'from',
      kind,
      '--to-server',
      'to',
      '--confirm',
      'to',
      '--wait',
    ])
    expect(restored, restored.stderr).toMatchObject({ code: 0 })
    expect(hashOf(there)).toBe(hashOf(here))
    expect(existsSync(join(there, 'own'))).toBe(false)
    writeFileSync(join(there, 'world', 'level.dat'), 'changed')
    writeFileSync(join(there, 'own'), 'own')
    const one = ['--path', 'world/level.dat', '--yes', '--wait']
    const by = await panel.run(['backups', 'restore', 'from', kind, '--to-server', 'to', ...one])
    expect(by, by.stderr).toMatchObject({ code: 0 })
    expect(hashOf(there)).toBe(hashOf(here))
    expect(readFileSync(join(there, 'own'), 'utf8')).toBe('own')
  },
  120_000,
)
