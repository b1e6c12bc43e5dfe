import { expect, test } from 'vitest'
import { PackedBytes } from '../../../src/daemon/core/packed-bytes.ts'

const KIB = 1024
/** As the module says it: the size of a piece, and from when on bytes are left where they are. */
const [PIECE, MOST] = [256 * KIB, 32 * KIB]

/** The same numbers each time. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) & 0x7fffffff
    return state % below
  }
}

test('whatever is put and dropped, in any order, all bytes stay as they were, in at most twice their room and one piece', () => {
  const below = numbers(7)
  const held = new Map<object, Buffer>()
  const wanted = new Map<object, Buffer>()
  const given: { readonly bytes: Buffer; readonly as: Buffer }[] = []
  const packed = new PackedBytes<object>((owner, to) => {
    expect(held.has(owner), 'nothing is moved that was dropped').toBe(true)
    held.set(owner, to)
  })
  for (let i = 0; i < 20_000; i++) {
    const oldest = [...held.keys()].slice(0, 40)
    const owner = oldest[below(Math.max(oldest.length, 1))]
    if (owner !== undefined && below(100) < 50) {
      packed.drop(owner)
      held.delete(owner)
      wanted.delete(owner)
      continue
    }
    const bytes = Buffer.alloc(below(50) === 0 ? below(2 * MOST) : below(i % 4000 < 2000 ? 9000 : MOST + 1), `${i},`)
    const mine = {}
    wanted.set(mine, bytes)
    held.set(mine, packed.put(bytes, mine))
    if (i % 50 === 0) given.push({ bytes: held.get(mine) ?? bytes, as: Buffer.from(bytes) })
    if (i % 200 > 1) continue
    const small = [...held.values()].filter(({ length }) => length > 0 && length <= MOST)
    const needed = small.reduce((sum, { length }) => sum + length, 0)
    expect(new Set(small.map(({ buffer }) => buffer)).size * PIECE).toBeLessThanOrEqual(2 * needed + PIECE)
    expect([...held].every(([of, at]) => wanted.get(of)?.equals(at) === true)).toBe(true)
  }
  expect(given.every(({ bytes, as }) => bytes.equals(as))).toBe(true)
})
