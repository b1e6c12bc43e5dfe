import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { BusEvent } from '../../../src/daemon/core/bus.ts'
import { EventQueue, MOST_WAITING_EVENTS } from '../../../src/daemon/features/plugins/event-queue.ts'
import { CallFailure } from '../../../src/daemon/features/plugins/failures.ts'
import { isoTime } from '../../../src/shared/kernel/time.ts'

const event = (id: number): BusEvent => ({
  id,
  type: 'location_created',
  serverId: null,
  data: {},
  timestamp: isoTime(id),
})

interface Got {
  readonly id: number | null
  readonly type: string
  readonly data: { readonly lost?: number }
}

/** A plugin that hears what the queue brings; `fail` decides what its handler does with it. */
function listener(fail: (got: Got, times: number) => CallFailure | undefined = () => undefined) {
  const got: Got[] = []
  const failures: string[] = []
  const open = { gate: Promise.resolve() }
  const queue = new EventQueue({
    handlers: new Map([['location_created', ['on']]]),
    holds: async () => true,
    ready: async () => {
      await open.gate
      return true
    },
    call: async (_, input) => {
      const one = input as Got // what the queue hands over
      got.push(one)
      const failure = fail(one, got.filter(({ id }) => id === one.id).length)
      if (failure !== undefined) throw failure
    },
    failed: (handler, error) => failures.push(`${handler}: ${error.message}`),
  })
  return { queue, got, failures, open }
}

/** Lets the queue deliver until it has nothing left to do: nothing here waits for more than a turn. */
async function drained({ queue, got }: ReturnType<typeof listener>): Promise<void> {
  const running = queue.run()
  for (let before = -1; before !== got.length; ) {
    before = got.length
    await setImmediate()
  }
  queue.close()
  await running
}

describe('events on their way to a plugin', () => {
  it('come in order, each once, also those that came while it was not there', async () => {
    const to = listener()
    for (let id = 1; id <= MOST_WAITING_EVENTS; id++) to.queue.offer(event(id))
    await drained(to)
    expect(to.got.map(({ id }) => id)).toEqual(Array.from({ length: MOST_WAITING_EVENTS }, (_, at) => at + 1))
  })

  it('beyond the bound are counted, and the plugin is told how many it has missed', async () => {
    const to = listener()
    for (let id = 1; id <= MOST_WAITING_EVENTS + 7; id++) to.queue.offer(event(id))
    await drained(to)
    expect(to.got.filter(({ id }) => id !== null)).toHaveLength(MOST_WAITING_EVENTS)
    expect(to.got.filter(({ type }) => type === 'events_lost')).toMatchObject([{ data: { lost: 7 } }])
  })

  it('are brought again when the process has died of one, but not for ever', async () => {
    const to = listener(({ id }, times) => (id === 2 || (id === 3 && times === 1) ? gone() : undefined))
    for (const id of [1, 2, 3, 4]) to.queue.offer(event(id))
    await drained(to)
    expect(to.got.filter(({ id }) => id !== null).map(({ id }) => id)).toEqual([1, 2, 2, 3, 3, 4])
    expect(to.got.filter(({ type }) => type === 'events_lost')).toMatchObject([{ data: { lost: 1 } }])
  })

  it('count as delivered when the handler fails by itself', async () => {
    const to = listener(({ id }) => (id === 1 ? new CallFailure('threw', 'broken') : undefined))
    for (const id of [1, 2]) to.queue.offer(event(id))
    await drained(to)
    expect(to.got.map(({ id }) => id)).toEqual([1, 2])
    expect(to.failures).toEqual(['on: broken'])
  })
})

function gone(): CallFailure {
  return new CallFailure('gone', 'it has ended')
}
