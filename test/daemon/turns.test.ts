import { expect, test } from 'vitest'
import { ShortReads } from '../../src/daemon/core/short-reads.ts'
import { Turns } from '../../src/daemon/gateway/turns.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'

test('a few of many run at a time, in their order, and one that fails gives its place to the next', async () => {
  const turns = new Turns(2, { clock: systemClock, reads: new ShortReads() })
  const begun: number[] = []
  let running = 0
  let most = 0
  const results = await Promise.allSettled(
    [0, 1, 2, 3, 4, 5].map((nth) =>
      turns.run(async () => {
        begun.push(nth)
        running += 1
        most = Math.max(most, running)
        await Promise.resolve()
        running -= 1
        if (nth === 1) throw new Error('failed')
        return nth
      }),
    ),
  )
  expect(begun).toEqual([0, 1, 2, 3, 4, 5])
  expect(most).toBeLessThanOrEqual(2)
  expect(results.map((result) => (result.status === 'fulfilled' ? result.value : 'failed'))).toEqual([
    0,
    'failed',
    2,
    3,
    4,
    5,
  ])
})

test('whatever else waits for its turn of the process has it between two of them', async () => {
  const turns = new Turns(1, { clock: systemClock, reads: new ShortReads() })
  const order: string[] = []
  const all = Promise.all(['first', 'second'].map((name) => turns.run(() => order.push(name))))
  setImmediate(() => {
    order.push('another')
    setImmediate(() => order.push('a third'))
  })
  await all
  expect(order).toEqual(['another', 'first', 'a third', 'second'])
})

test('of those that run at the same time one begins in each round of the event loop', async () => {
  const turns = new Turns(3, { clock: systemClock, reads: new ShortReads() })
  let round = 0
  let isOver = false
  const count = (): void => {
    round += 1
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  const begun = await Promise.all([0, 1, 2].map(() => turns.run(() => round)))
  isOver = true
  expect(new Set(begun).size).toBe(3)
})

test('one begins when no read is under way, but does not wait for reads without an end', async () => {
  const reads = new ShortReads()
  const turns = new Turns(1, { clock: systemClock, reads })
  const order: string[] = []
  let end = (): void => undefined
  const answered = (): Promise<void> =>
    new Promise((resolve) => {
      end = resolve
    })
  const read = reads.run(() => answered().then(() => order.push('read')))
  const first = turns.run(() => order.push('first'))
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  end()
  await Promise.all([read, first])
  expect(order).toEqual(['read', 'first'])

  const endless = reads.run(answered)
  await turns.run(() => order.push('second'))
  end()
  await endless
})
