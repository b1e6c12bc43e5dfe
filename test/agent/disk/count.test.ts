import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { DIST } from '../../run-panel.ts'

type CounterModule = typeof import('../../../src/agent/disk/measure.ts')

let base: string

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'panel-count-'))
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

/** As it was built: it counts in a thread, whose main file is compiled. */
async function counter() {
  const { FolderCounter }: CounterModule = await import(join(DIST, 'src/agent/disk/measure.js'))
  return new FolderCounter()
}

function folder(name: string, kib: number): string {
  const path = join(base, name)
  mkdirSync(path)
  writeFileSync(join(path, 'file'), Buffer.alloc(kib * 1024, 1))
  return path
}

test('folders that wait together are each counted as what they are', async () => {
  const folders = Array.from({ length: 40 }, (_, i) => folder(`s${i}`, 64 * (i + 1)))
  const counts = await counter()
  const { signal } = new AbortController()
  const counted = await Promise.all(
    folders.map((path) => counts.count({ folder: path, enoughBytes: Infinity }, signal)),
  )
  counted.forEach(({ bytes }, i) => {
    expect(bytes).toBeGreaterThanOrEqual(64 * 1024 * (i + 1))
    expect(bytes).toBeLessThan(64 * 1024 * (i + 1) + 32 * 1024)
  })
})

test('one that cannot be counted fails alone', async () => {
  const counts = await counter()
  const { signal } = new AbortController()
  const count = (path: string) => counts.count({ folder: path, enoughBytes: Infinity }, signal)
  const [before, bad, after] = await Promise.allSettled([
    count(folder('before', 64)),
    count(`${base}/with\0nothing`),
    count(folder('after', 128)),
  ])
  expect(bad.status).toBe('rejected')
  expect(before).toMatchObject({ status: 'fulfilled' })
  expect(after.status === 'fulfilled' && after.value.bytes).toBeGreaterThanOrEqual(128 * 1024)
})

test('what is called off rejects with the reason, and what is asked for afterwards is counted', async () => {
  const counts = await counter()
  const over = new AbortController()
  const path = folder('one', 64)
  const cut = counts.count({ folder: path, enoughBytes: Infinity }, over.signal)
  over.abort(new Error('enough'))
  await expect(cut).rejects.toThrow('enough')
  const { signal } = new AbortController()
  expect((await counts.count({ folder: path, enoughBytes: Infinity }, signal)).bytes).toBeGreaterThanOrEqual(65_536)
})
