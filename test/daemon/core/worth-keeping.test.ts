import { expect, test } from 'vitest'
import { WorthKeeping } from '../../../src/daemon/http/worth-keeping.ts'

const asked = (worth: WorthKeeping, key: string, times: number): boolean[] =>
  Array.from({ length: times }, () => worth.isWorth(key))

test('what is asked for a second time is kept, and from then on at once', () => {
  const worth = new WorthKeeping()
  expect(asked(worth, 'a', 3)).toEqual([false, true, true])
  expect(asked(worth, 'b', 1)).toEqual([false])
})

test('what goes old without having been given is kept less and less often, until it is given', () => {
  const worth = new WorthKeeping()
  asked(worth, 'a', 2)
  worth.wasted('a')
  expect(asked(worth, 'a', 3)).toEqual([false, false, true])
  worth.wasted('a')
  expect(asked(worth, 'a', 5)).toEqual([false, false, false, false, true])
  worth.given('a')
  worth.wasted('a')
  expect(asked(worth, 'a', 3)).toEqual([false, false, true])
  for (let i = 0; i < 20; i++) worth.wasted('a')
  expect(asked(worth, 'a', 65).indexOf(true)).toBe(64)
})

test('a flood of keys is forgotten', () => {
  const worth = new WorthKeeping()
  asked(worth, 'first', 2)
  for (let i = 0; i < 10_000; i++) worth.isWorth(`other ${i}`)
  expect(asked(worth, 'first', 2)).toEqual([false, true])
})
