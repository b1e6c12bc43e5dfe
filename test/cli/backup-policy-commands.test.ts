import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type BackupNode, PolicyStage } from '../daemon/backups/policy-stage.ts'
import { BACKUP_POLICIES } from './backup-policy-paths.ts'
import { walkPanel } from './command-walk.ts'

let policies: PolicyStage
let node: BackupNode
beforeAll(async () => {
  policies = await PolicyStage.open()
  node = await policies.node(2)
})
afterAll(() => policies.close())

const walk = walkPanel(BACKUP_POLICIES, () => policies.stage.panel)
const { ok, json, refused } = walk
const noun = 'backup-policies'

describe('the commands of backup policies', { timeout: 60_000 }, () => {
  it('create, list, view, edit, pause and resume', async () => {
    expect((await refused(8, [noun, 'create', '--name', 'nightly'])).stderr).toContain('--cron: is required')
    const times = ['--name', 'nightly', '--cron', '0 4 * * *']
    await refused(2, [noun, 'create', ...times, '--all', '--node', node.node.id])
    expect((await refused(8, [noun, 'create', ...times, '--time-zone', 'Berlin'])).stderr).toContain('--time-zone')
    const how = ['--keep', '3', '--quota', '2G', '--ignore', '*.log', '--databases', '--store', 'local']
    const made = await json([noun, 'create', ...times, '--time-zone', 'Europe/Berlin', '--node', node.node.id, ...how])
    expect(made).toMatchObject({ target: 'node', nodeId: node.node.id, keepCount: 3, allocationMb: 2048 })
    expect(made).toMatchObject({ ignored: ['*.log'], databases: true, storeId: 'bst_local', enabled: true })
    await refused(7, [noun, 'create', ...times])
    await refused(2, [noun, 'edit', 'nightly'])
    const [server = ''] = node.servers
    const changed = await json([noun, 'edit', 'nightly', '--server', server, '--no-quota', '--no-store'])
    expect(changed).toMatchObject({ target: 'servers', serverIds: [server], nodeId: null, allocationMb: null })
    expect(changed).toMatchObject({ storeId: null, counts: { servers: 1 } })
    expect(await json([noun, 'pause', 'nightly'])).toMatchObject({ enabled: false, nextRunAt: null })
    expect(await json([noun, 'resume', 'nightly'])).toMatchObject({ enabled: true, nextRunAt: made.nextRunAt })
    expect(await ok([noun, 'list'])).toContain('1 servers')
    expect(await json([noun, 'view', 'nightly'])).toMatchObject({ id: made.id, perNode: 2 })
  })

  it('run, runs, results, servers and cancel, and delete', async () => {
    await refused(6, [noun, 'results', 'nightly'])
    const begun = await json([noun, 'run', 'nightly'])
    expect(begun).toMatchObject({ cause: 'manual', status: 'running', counts: { servers: 1, waiting: 1 } })
    expect(await ok([noun, 'results', 'nightly'])).toContain('is not connected')
    expect(await json([noun, 'servers', 'nightly', '--state', 'due'])).toHaveLength(1)
    expect((await refused(124, [noun, 'run', 'nightly', '--wait', '--timeout', '1ms'])).stderr).toContain(
      '0 of 1 servers',
    )
    expect(await json([noun, 'cancel', 'nightly', '--yes'])).toMatchObject({ status: 'cancelled' })
    await refused(7, [noun, 'cancel', 'nightly', '--yes'])
    await node.connect()
    expect(await json([noun, 'run', 'nightly', '--wait'])).toMatchObject({ status: 'completed' })
    node.answer = () => ({ error: 'the disk is full' })
    expect((await refused(11, [noun, 'run', 'nightly', '--wait'])).stderr).toContain('1 of 1 servers have failed')
    const runs = await json([noun, 'runs', 'nightly'])
    expect(runs.map(({ status }: { status: string }) => status)).toEqual([
      'failed',
      'completed',
      'cancelled',
      'superseded',
    ])
    expect(await ok([noun, 'results', 'nightly', runs[1].id, '-o', 'name'])).toBe(
      await ok([noun, 'servers', 'nightly', '-o', 'name']),
    )
    await ok([noun, 'delete', 'nightly', '--yes'])
    await refused(6, [noun, 'view', 'nightly'])
  })

  it('leaves none out', () => {
    expect(walk.left()).toEqual([])
  })
})
