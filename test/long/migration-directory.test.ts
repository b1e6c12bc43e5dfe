// @module-tag long
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { failedSteps, MigrationStage } from '../daemon/migration/migration-stage.ts'

const ROOTS = 'PANEL_MIGRATION__ROOTS'
let root: string
let stage: MigrationStage

function addServer(folder: string, manifest: string): void {
  mkdirSync(join(root, folder, 'world'), { recursive: true })
  writeFileSync(join(root, folder, 'panel-server.yaml'), manifest)
  writeFileSync(join(root, folder, 'world', 'level.dat'), folder)
}

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'panel-folders-'))
  for (let n = 1; n <= 18; n++) {
    const limits = 'limits:\n  memoryMb: 256\n  diskMb: 512\n  cpu: 1'
    addServer(
      `s${String(n).padStart(2, '0')}`,
      `name: Server ${n}\ntemplate: Folder game\n${limits}\nports: [${25_000 + n}]\n`,
    )
  }
  addServer('broken', 'name: [')
  symlinkSync('/etc', join(root, 'elsewhere'))
  process.env[ROOTS] = root
  stage = await MigrationStage.open({ source: { servers: 0 } })
  const startup = { startup: 'sleep 1000', runtimes: ['process'] as const }
  await stage.panel.client.call(createTemplate, { body: { name: 'Folder game', ...startup } as never })
})

afterAll(async () => {
  delete process.env[ROOTS]
  await stage.close()
  rmSync(root, { recursive: true })
})

it('folders of a node move in; those that are no servers are reported, and nothing outside is read', async () => {
  const { nodeId } = stage.panel
  const body = {
    ...{ url: undefined, key: undefined, clientApiKey: undefined, nodeMappings: {} },
    source: { kind: 'directory', nodeId, path: root },
  }
  const job = await stage.moved(body)
  expect({ status: job.status, error: job.error, failed: failedSteps(job) }).toEqual({
    status: 'completed',
    error: null,
    failed: [],
  })
  const servers = await stage.servers()
  expect(servers).toHaveLength(18)
  for (const { id, name } of servers) {
    const files = await stage.filesOf(id)
    expect(Object.keys(files).sort(), name).toEqual(['world/level.dat'])
  }
  const left = job.report?.skipped.filter(({ type, reason }) => type === 'server' && reason === 'unreadable')
  expect(left?.map(({ name }) => name).sort()).toEqual(['broken', 'elsewhere'])
  expect(job.report?.totals['server']).toMatchObject({ read: 20, created: 18, skipped: 2 })
  const again = await stage.moved(body)
  expect(failedSteps(again)).toEqual([])
  expect(again.report?.totals['files']).toMatchObject({ unchanged: 18 })
  expect(again.report?.totals['server']).toMatchObject({ unchanged: 18 })
}, 300_000)
