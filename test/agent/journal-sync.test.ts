import { type FileHandle, mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Journal } from '../../src/agent/state/journal.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'

let folder: string
let restore = (): void => undefined
const silent = { info: () => {}, warn: () => {}, error: () => {} }

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-journal-'))
})

afterEach(async () => {
  restore()
  await rm(folder, { recursive: true })
})

/** Puts `sync` in the place of the calls that bring a file's data to the disk: those of Node, of every open file. */
async function syncBy(sync: (real: () => Promise<void>) => Promise<void>): Promise<void> {
  const handle = await open(folder)
  const files = Object.getPrototypeOf(handle) as FileHandle // the prototype has the methods of its kind
  await handle.close()
  const { datasync } = files
  files.datasync = function (this: FileHandle) {
    return sync(() => datasync.call(this))
  }
  restore = () => {
    files.datasync = datasync
  }
}

it('promises nothing before the disk has it, and nothing that the disk has refused', async () => {
  const journal = await Journal.open({ folder, clock: systemClock, log: silent })
  let asked = 0
  let answer: (() => void) | undefined
  const waiting = new Promise<void>((resolve) => {
    answer = resolve
  })
  let reached: (() => void) | undefined
  const began = new Promise<void>((resolve) => {
    reached = resolve
  })
  await syncBy(async (real) => {
    asked += 1
    reached?.()
    if (asked === 1) {
      await waiting
      throw Object.assign(new Error('planted by a test'), { code: 'EIO' })
    }
    await real()
  })
  const done = {
    type: 'command.done',
    commandId: 'cmd_1',
    serverId: 'srv_a',
    ok: true,
    noop: false,
    error: null,
  } as const
  let written = false
  const write = journal.write({ events: [done] }).then(() => {
    written = true
  })
  await Promise.race([began, write])
  expect([asked, written, journal.outbox.next(0)]).toEqual([1, false, undefined])
  answer?.()
  await write
  // A file whose sync failed may have lost pages: what counts is in a new one.
  expect(await readFile(join(folder, 'journal.jsonl'), 'utf8')).toContain('cmd_1')
  expect(journal.outbox.next(0)?.seq).toBe(1)
  restore()
  await journal.close()
  const again = await Journal.open({ folder, clock: systemClock, log: silent })
  expect(again.outbox.lastSeq).toBe(1)
  await again.close()
})
