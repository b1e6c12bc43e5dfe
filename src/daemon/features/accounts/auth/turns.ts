import { PanelError } from '../../../../shared/kernel/errors.ts'

/** Lets work of one name happen one after the other, and work of different names side by side. */
export interface Turns {
  /** Waits for its turn and works. Fails with RATE_LIMITED when too many wait already. */
  take<T>(name: string, work: () => Promise<T>): Promise<T>
}

/** Turns by name; at most `waiting` wait for one name. */
export function createTurns(waiting: number): Turns {
  const queues = new Map<string, { tail: Promise<unknown>; length: number }>()
  return {
    take: async (name, work) => {
      const queue = queues.get(name) ?? { tail: Promise.resolve(), length: 0 }
      if (queue.length > waiting) throw tooMany()
      queues.set(name, queue)
      queue.length += 1
      const turn = queue.tail.then(work)
      queue.tail = turn.catch(() => undefined) // its caller gets the failure; the next only waits for the end
      try {
        return await turn
      } finally {
        queue.length -= 1
        if (queue.length === 0) queues.delete(name)
      }
    },
  }
}

/** The refusal of work that would wait too long. */
export function tooMany(): PanelError {
  return new PanelError('RATE_LIMITED', 'Too many sign-ins are waiting; try again in a few seconds', {
    meta: { retryAfterSeconds: 5 },
  })
}
