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
