import { expect, test } from 'vitest'
import { WorthKeeping } from '../../../src/daemon/http/worth-keeping.ts'

const MIB = 2 ** 20
const made = (): WorthKeeping => new WorthKeeping(16 * MIB)
const asked = (worth: WorthKeeping, key: string, times: number): boolean[] =>
  Array.from({ length: times }, () => worth.isWorth(key, 1000))

test('what is asked for a second time is kept, and from then on at once', () => {
  const worth = made()
  expect(asked(worth, 'a', 3)).toEqual([false, true, true])
  expect(asked(worth, 'b', 1)).toEqual([false])
})

test('what goes old without having been given is kept less and less often, until it is given', () => {
  const worth = made()
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
  const worth = made()
  asked(worth, 'first', 2)
  for (let i = 0; i < 10_000; i++) worth.isWorth(`other ${i}`, 1)
  expect(asked(worth, 'first', 2)).toEqual([false, true])
})

test('what is asked for again when others would have driven it out is not kept', () => {
  const worth = made()
  const round = (keys: number): number => {
    let kept = 0
    for (let i = 0; i < keys; i++) if (worth.isWorth(`page ${i}`, MIB)) kept += 1
    return kept
  }
  expect([round(17), round(17), round(17)]).toEqual([0, 0, 0])
  expect([round(15), round(15)]).toEqual([0, 15])
})

test('an answer that has grown counts as it is now', () => {
  const worth = made()
  worth.isWorth('small', 1000)
  worth.isWorth('grown', 1000)
  worth.isWorth('grown', 17 * MIB)
  expect(asked(worth, 'small', 1)).toEqual([false])
})
