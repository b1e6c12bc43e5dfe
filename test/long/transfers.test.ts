// @module-tag long
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { SplitPanel } from '../e2e/split-panel.ts'
import { runPanel } from '../run-panel.ts'

const MIB = 1024 * 1024
const SIZE = 1024 * MIB
const GROWTH_MIB = 32

let panel: SplitPanel
let serverId: string
let local: string
let sha256: string

beforeAll(async () => {
  panel = await SplitPanel.enter()
  const templateId = await panel.makeTemplate('big', 'echo ready; sleep 1000')
  serverId = (await panel.makeServer('big', templateId, { diskMb: 4096 })).id
  local = join(panel.home, 'local.bin')
  sha256 = await fill(local)
}, 120_000)
afterAll(() => panel.leave(), 60_000)

async function fill(path: string): Promise<string> {
  const hash = createHash('sha256')
  const file = createWriteStream(path)
  const block = randomBytes(MIB)
  for (let at = 0; at < SIZE; at += MIB) {
    block.writeUInt32BE(at / MIB)
    hash.update(block)
    if (!file.write(Buffer.from(block))) await new Promise<void>((resolve) => file.once('drain', () => resolve()))
  }
  await new Promise<void>((resolve) => file.end(() => resolve()))
  return hash.digest('hex')
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path)) hash.update(piece)
  return hash.digest('hex')
}

/** Resident memory of daemon and agent, and the most of each while `work` runs. */
async function growth(work: () => Promise<void>): Promise<number[]> {
  const rss = (): Promise<number[]> => Promise.all(panel.pids().map(rssMib))
  await new Promise((resolve) => setTimeout(resolve, 3000))
  const before = await rss()
  let most = before
  let isOver = false
  const watch = async (): Promise<void> => {
    while (!isOver) {
      const now = await rss()
      most = most.map((value, index) => Math.max(value, now[index] ?? 0))
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
  const watching = watch()
  try {
    await work()
  } finally {
    isOver = true
    await watching
  }
  return most.map((value, index) => value - (before[index] ?? 0))
}

async function rssMib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024
}

it('moves 1 GiB into and out of a folder with less than 32 MiB more in daemon and agent', async () => {
  const remote = join(panel.filesOf(serverId), 'big.bin')
  const copy = join(panel.home, 'copy.bin')
  const warm = join(panel.home, 'warm')
  await panel.run(['files', 'put', serverId, 'warm.bin', '-'], { input: 'x'.repeat(8 * MIB) })
  await panel.run(['files', 'get', serverId, 'warm.bin', warm])
  const grown = await growth(async () => {
    const put = await panel.run(['files', 'put', serverId, 'big.bin', local])
    expect(put.code, put.stderr).toBe(0)
    expect(await hashOf(remote)).toBe(sha256)
    const got = await panel.run(['files', 'get', serverId, 'big.bin', copy])
    expect(got.code, got.stderr).toBe(0)
    expect(await hashOf(copy)).toBe(sha256)
  })
  process.stdout.write(`grown by ${grown.map((one) => one.toFixed(1)).join(' and ')} MiB\n`)
  for (const one of grown) expect(one).toBeLessThan(GROWTH_MIB)
  await rm(copy)
}, 300_000)

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
}, 300_000)

/** Begins an upload and kills somebody once a part of it is there; answers how much that is. */
async function interrupted(kill: 'agent' | 'daemon' | 'command'): Promise<number> {
  const before = await panel.partOf(serverId)
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
    while (!isOver && (await panel.partOf(serverId)) < before + 32 * MIB)
      await new Promise((resolve) => setTimeout(resolve, 10))
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
