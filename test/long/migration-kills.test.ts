// @module-tag long
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import * as migration from '../../src/shared/protocol/migration.ts'
import { archiveOf, MigrationStage, SERVER } from '../agent/migration/migration-stage.ts'
import { until } from '../e2e/wait.ts'
import { skippedUnless } from '../skips.ts'
import { atEachPoint, canKillAtPoints, killedAt } from './kill-points.ts'

const WHY_NOT = skippedUnless(canKillAtPoints, 'strace, and the right to trace')
const LARGE = randomBytes(700_000)
const ARCHIVE = archiveOf([
  { name: 'world/', type: '5' },
  { name: 'world/region/c', content: 'new c' },
  { name: 'world/b', content: 'new b' },
  { name: 'world/large', content: LARGE },
  { name: 'a', content: 'new a' },
  { name: 'link', type: '2', target: 'a' },
])

let stage: MigrationStage
let fresh: string

/** The tree that the server has before. */
function fillOld(): void {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  mkdirSync(join(stage.folder, 'old', 'deep'), { recursive: true })
  writeFileSync(join(stage.folder, 'old', 'deep', 'x'), 'old x')
  writeFileSync(join(stage.folder, 'a'), 'old a')
}

function sums(folder = stage.folder): string {
  const script = 'find . -type f -print0 | sort -z | xargs -0 sha256sum; find . -printf "%y %p %l\\n" | sort'
  return execFileSync('sh', ['-c', script], { cwd: folder, encoding: 'utf8' })
}

async function nothingAside(): Promise<void> {
  await until('what was left is removed', async () => readdirSync(stage.servers).length === 1)
  expect(readdirSync(stage.servers)).toEqual([SERVER])
  expect(readdirSync(join(stage.agent.dataDir, 'migrations'))).toEqual([])
  expect(readdirSync(join(stage.agent.dataDir, 'restores')).filter((name) => name.endsWith('.json'))).toEqual([])
}

beforeAll(async () => {
  // One thread for all that the agent has done behind its back: the points come in one order.
  process.env['UV_THREADPOOL_SIZE'] = '1'
  stage = await MigrationStage.enter()
  const from = join(stage.root, 'lobby')
  mkdirSync(join(from, 'world', 'region'), { recursive: true })
  for (const name of ['a', 'world/b', 'world/region/c']) writeFileSync(join(from, name), `new ${name.at(-1)}`)
  writeFileSync(join(from, 'world', 'large'), LARGE)
  symlinkSync('a', join(from, 'link'))
  fresh = sums(from)
}, 60_000)
afterAll(async () => {
  delete process.env['UV_THREADPOOL_SIZE']
  await stage.leave()
}, 60_000)
beforeEach(fillOld)

const take = (stepId: string, kind: 'archive' | 'folder') => {
  if (kind === 'folder') {
    return stage.pull(stepId, { source: { kind: 'directory', path: stage.root, folder: 'lobby' } })
  }
  return stage.pull(stepId, stage.offer(ARCHIVE))
}

describe.skipIf(!canKillAtPoints)(`an agent that is ended${WHY_NOT}`, () => {
  it.each(['archive', 'folder'] as const)(
    'while an %s comes goes on when it is asked again',
    { timeout: 900_000 },
    async (kind) => {
      const before = sums()
      const points = await atEachPoint(async (point) => {
        const stepId = stage.step()
        const wasKilled = await killedAt(stage.agent, point, () => stage.ask(migration.pullFiles, take(stepId, kind)))
        expect(sums()).toBe(before)
        const { state } = await stage.ask(migration.askFiles, { stepId })
        expect(['none', 'ready'], `${point.change} ${point.number}`).toContain(state)
        const pulled = await stage.ask(migration.pullFiles, take(stepId, kind))
        expect(pulled).toMatchObject({ files: 4, problemCount: 0 })
        const checked = await stage.ask(migration.verifyFiles, { stepId, mode: 'full' })
        expect(checked).toMatchObject({ files: 4, read: 4, differenceCount: 0 })
        expect(await stage.ask(migration.wipeFiles, { stepId })).toEqual({ wiped: true })
        await nothingAside()
        return wasKilled
      })
      process.stdout.write(`${kind}: ${points} points\n`)
      expect(points).toBeGreaterThan(10)
    },
  )

  it.each(['replace', 'merge'] as const)(
    'while files take their place by %s has the old ones or the new ones',
    { timeout: 900_000 },
    async (existing) => {
      const points = await atEachPoint(async (point) => {
        fillOld()
        const before = sums()
        const stepId = stage.step()
        await stage.ask(migration.pullFiles, take(stepId, 'archive'))
        const place = { stepId, serverId: SERVER, existing }
        const wasKilled = await killedAt(stage.agent, point, () => stage.ask(migration.placeFiles, place))
        const { state } = await stage.ask(migration.askFiles, { stepId })
        expect(['ready', 'placed'], `${point.change} ${point.number}`).toContain(state)
        if (state === 'ready') expect(sums()).toBe(before)
        expect(await stage.ask(migration.placeFiles, place)).toEqual({ placed: state === 'ready' })
        if (existing === 'replace') expect(sums()).toBe(fresh)
        else expect(readdirSync(stage.folder).sort()).toEqual(['a', 'link', 'old', 'world'])
        expect(await stage.ask(migration.verifyFiles, { stepId, mode: 'full' })).toMatchObject({ differenceCount: 0 })
        await stage.ask(migration.wipeFiles, { stepId })
        await nothingAside()
        return wasKilled
      })
      process.stdout.write(`${existing}: ${points} points\n`)
      expect(points).toBeGreaterThan(5)
    },
  )

  it('while a step is wiped is done with it when it is asked again', { timeout: 900_000 }, async () => {
    const before = sums()
    const points = await atEachPoint(async (point) => {
      const stepId = stage.step()
      await stage.ask(migration.pullFiles, take(stepId, 'archive'))
      const wasKilled = await killedAt(stage.agent, point, () => stage.ask(migration.wipeFiles, { stepId }))
      await stage.ask(migration.wipeFiles, { stepId })
      expect(await stage.ask(migration.askFiles, { stepId })).toMatchObject({ state: 'none' })
      await nothingAside()
      return wasKilled
    })
    process.stdout.write(`wipe: ${points} points\n`)
    expect(points).toBeGreaterThan(5)
    expect(sums()).toBe(before)
  })
})
