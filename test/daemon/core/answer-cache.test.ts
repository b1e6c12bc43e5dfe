import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Db, openDb } from '../../../src/daemon/db/db.ts'
import { AnswerCache } from '../../../src/daemon/http/answer-cache.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'

const MOST = 100_000

let folder: string
let db: Db

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-answers-'))
  db = await openDb(join(folder, 'panel.db'), systemClock)
})

afterAll(async () => {
  await db.close()
  await rm(folder, { recursive: true })
})

/** How many of the answers to these questions are kept, when each has been asked for twice in a row. */
async function kept(keys: readonly string[]): Promise<number> {
  const cache = new AnswerCache({ db, clock: systemClock, most: MOST })
  for (const key of keys.flatMap((one) => [one, one])) await cache.make(key, async () => Buffer.from('{}'), 'single')
  const found = await Promise.all(keys.map((key) => cache.find(key)))
  return found.filter((answer) => answer !== undefined).length
}

const questions = (length: number): string[] =>
  Array.from({ length: 90 }, (_, i) => `/api/settings/public?${i}=`.padEnd(length, 'a'))

test('answers are kept whose questions are short', async () => {
  expect(await kept(questions(30))).toBe(90)
})

test('what is kept counts with its question', async () => {
  const most = await kept(questions(900))
  expect(most).toBeGreaterThan(10)
  expect(most * (900 + 1000)).toBeLessThan(MOST)
})

test('no long question is kept: whoever asks by many would fill the memory, without being signed in', async () => {
  expect(await kept(questions(15_000))).toBe(0)
})

test('small answers lie in memory that others share, of which no more is held than they need, and stay as they were', async () => {
  const cache = new AnswerCache({ db, clock: systemClock, most: 16 * 1024 * 1024 })
  const count = 400
  const versions = new Uint8Array(count)
  const bytesOf = (i: number): Buffer => Buffer.alloc(4000 + i, `${i},`)
  const ask = (i: number) =>
    cache.make(
      `${i}`,
      async ({ live }) => {
        live(() => versions[i])
        return bytesOf(i)
      },
      'single',
    )
  for (let i = 0; i < count; i++) for (const _ of [1, 2]) await ask(i)
  const first = await Promise.all(Array.from({ length: count }, (_, i) => cache.find(`${i}`)))
  expect(first.map((answer, i) => answer?.payload.equals(bytesOf(i))).every(Boolean)).toBe(true)
  const given = first.map((answer) => answer?.payload)
  expect(new Set(given.map((bytes) => bytes?.buffer)).size).toBeLessThan(10)
  // Four of five go.
  for (let i = 0; i < count; i++) if (i % 5 > 0) versions[i] = 1
  for (let i = 0; i < count; i++)
    expect((await cache.find(`${i}`)) === undefined, `answer ${i} is gone`).toBe(i % 5 > 0)
  const left = await Promise.all(Array.from({ length: count / 5 }, (_, i) => cache.find(`${i * 5}`)))
  expect(left.map((answer, i) => answer?.payload.equals(bytesOf(i * 5))).every(Boolean)).toBe(true)
  expect(new Set(left.map((answer) => answer?.payload.buffer)).size).toBeLessThan(4)
  // Who sends what was given before still has it.
  for (let i = 0; i < count; i++) for (const _ of [1, 2]) await ask(i)
  expect(given.map((bytes, i) => bytes?.equals(bytesOf(i))).every(Boolean)).toBe(true)
})

test('answers that are seldom asked for hold on to no memory of those that are made anew again and again', async () => {
  const cache = new AnswerCache({ db, clock: systemClock, most: 16 * 1024 * 1024 })
  const keep = async (key: string): Promise<void> => {
    for (const _ of [1, 2]) await cache.make(key, async () => Buffer.alloc(4000, key), 'single')
  }
  for (let i = 0; i < 20; i++) {
    await keep(`seldom ${i}`)
    for (let again = 0; again < 50; again++) await keep('often')
  }
  const seldom = await Promise.all(Array.from({ length: 20 }, (_, i) => cache.find(`seldom ${i}`)))
  expect(seldom.map((answer, i) => answer?.payload.equals(Buffer.alloc(4000, `seldom ${i}`))).every(Boolean)).toBe(true)
  expect(new Set(seldom.map((answer) => answer?.payload.buffer)).size).toBeLessThan(4)
})
