// @module-tag long
import { readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CuttingWay, fill, growth, hashOf, MIB, Peaks } from '../e2e/large-file.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { runPanel } from '../run-panel.ts'

const SIZE = 5 * 1024 * MIB
const GROWTH_MIB = 32

let panel: SplitPanel
let serverId: string
let local: string
let sha256: string

beforeAll(async () => {
  panel = await SplitPanel.enter()
  const templateId = await panel.makeTemplate('big', 'echo ready; sleep 1000')
  serverId = (await panel.makeServer('big', templateId, { diskMb: 11 * 1024 })).id
  local = join(panel.home, 'local.bin')
  sha256 = await fill(local, SIZE)
}, 240_000)
afterAll(() => panel.leave(), 60_000)

it('moves 5 GiB into and out of a folder, cut at random, with less than 32 MiB more in daemon and agent and less than 200 in the command', async () => {
  const remote = join(panel.filesOf(serverId), 'big.bin')
  const copy = join(panel.home, 'copy.bin')
  await panel.run(['files', 'put', serverId, 'warm.bin', '-'], { input: 'x'.repeat(8 * MIB) })
  await panel.run(['files', 'get', serverId, 'warm.bin', join(panel.home, 'warm')])
  const way = await CuttingWay.open(panel.url, 700 * MIB)
  const commands = new Peaks()
  const options = { env: { PANEL_URL: way.url }, onStart: commands.watch }
  const grown = await growth(panel.pids(), async () => {
    const put = await panel.run(['files', 'put', serverId, 'big.bin', local], options)
    expect(put.code, put.stderr).toBe(0)
    expect(await hashOf(remote)).toBe(sha256)
    const got = await panel.run(['files', 'get', serverId, 'big.bin', copy], options)
    expect(got.code, got.stderr).toBe(0)
    expect(await hashOf(copy)).toBe(sha256)
  })
  await way.close()
  process.stdout.write(
    `grown by ${grown.map((one) => one.toFixed(1)).join(' and ')} MiB, cut ${way.cuts} times, command ${commands.mostMib.toFixed(0)}\n`,
  )
  expect(way.cuts).toBeGreaterThan(2)
  for (const one of grown) expect(one).toBeLessThan(GROWTH_MIB)
  expect(commands.mostMib).toBeLessThan(200)
  await rm(copy)
  await rm(remote)
}, 900_000)

it('goes on after the agent, the daemon and the command were killed in the middle', async () => {
  const remote = join(panel.filesOf(serverId), 'cut.bin')
  await panel.run(['files', 'put', serverId, 'cut.bin', '-'], { input: 'old' })
  for (const kill of ['agent', 'daemon', 'command'] as const) {
    const moved = await interrupted(kill)
    expect(moved, kill).toBeGreaterThan(0)
    expect(await readFile(remote, 'utf8')).toBe('old')
  }
  const put = await panel.run(['files', 'put', serverId, 'cut.bin', local])
  expect(put.code, put.stderr).toBe(0)
  expect((await stat(remote)).size).toBe(SIZE)
  expect(await hashOf(remote)).toBe(sha256)
}, 900_000)

/** Begins an upload and kills somebody once a part of it is there; answers how much that is. */
async function interrupted(kill: 'agent' | 'daemon' | 'command'): Promise<number> {
  const before = await panel.partOf(serverId)
  const until = before + Math.ceil((32 + Math.random() * 512) * MIB)
  let begin = (): void => undefined
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  let isOver = false
  const env = panel.environment()
  const end = new AbortController()
  const put = runPanel(['files', 'put', serverId, 'cut.bin', local], { env, signal: end.signal }).finally(() => {
    isOver = true
    begin()
  })
  const watch = async (): Promise<void> => {
    while (!isOver && (await panel.partOf(serverId)) < until) await new Promise((resolve) => setTimeout(resolve, 10))
    begin()
  }
  void watch()
  await begun
  end.abort()
  if (kill === 'agent') await panel.killAgent()
  if (kill === 'daemon') await panel.killDaemon()
  await put.catch(() => undefined) // it was killed
  if (kill === 'agent') await panel.startAgent()
  if (kill === 'daemon') await panel.startDaemon()
  await panel.online()
  return await panel.partOf(serverId)
}
