// @module-tag long
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { COUNTING_GAME, startsOf } from '../e2e/kills.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { isAlive } from '../e2e/wait.ts'

let panel: SplitPanel
let elsewhere: string
beforeAll(async () => {
  panel = await SplitPanel.enter()
  elsewhere = await mkdtemp(join(tmpdir(), 'panel-self-backup-'))
})
afterAll(async () => {
  await panel.leave()
  await rm(elsewhere, { recursive: true })
})

it('a panel that was lost with its machine comes back from its own backup: nodes connect, games never stop, the audit chain is whole', {
  timeout: 180_000,
}, async () => {
  const templateId = await panel.makeTemplate('survivor', COUNTING_GAME)
  const games = [
    await panel.makeServer('first', templateId, { start: true }),
    await panel.makeServer('second', templateId, { start: true }),
  ]
  const before = await Promise.all(games.map(({ id }) => panel.server(id)))
  const made = await panel.run(['self-backup', 'create', '--wait', '-o', 'json'])
  expect(made.code, made.stderr).toBe(0)
  const { address, name } = JSON.parse(made.stdout)
  const kept = join(elsewhere, name)
  const { id } = JSON.parse(made.stdout)
  const downloaded = await panel.run(['self-backup', 'download', id, '--out', kept])
  expect(downloaded.code, downloaded.stderr).toBe(0)
  const proof = JSON.parse((await panel.run(['audit', 'verify', '-o', 'json'])).stdout)

  await panel.killDaemon('SIGKILL')
  await rm(join(panel.home, 'daemon'), { recursive: true })
  expect(address).toContain(join(panel.home, 'daemon'))
  const restored = await panel.run(['self-backup', 'restore', kept, '--data-dir', join(panel.home, 'daemon')])
  expect(restored.code, restored.stderr).toBe(0)
  await panel.startDaemon()
  await panel.online()

  for (const [i, game] of games.entries()) {
    const after = await panel.serverWhen(game.id, 'running', ({ status }) => status === 'running')
    expect(after).toMatchObject({ pid: before[i]?.pid, startedAt: before[i]?.startedAt, crashCount: 0 })
    expect(await isAlive(after.pid ?? 0)).toBe(true)
    expect(await startsOf(panel, game)).toBe(1)
  }
  const verified = await panel.run(['audit', 'verify', '-o', 'json'])
  expect(verified.code, verified.stderr).toBe(0)
  expect(JSON.parse(verified.stdout)).toMatchObject({ intact: true })
  expect(proof.checked).toBeGreaterThan(0)
  // And it can be worked with: an order goes to the game that it found.
  const [first] = games
  await panel.order(first?.id ?? '', 'stop')
  await panel.serverWhen(first?.id ?? '', 'stopped', ({ status }) => status === 'stopped')
})
