import { appendFile, readFile } from 'node:fs/promises'
import { z } from 'zod'
import type { Tx } from '../../../src/daemon/db/db.ts'
import { defineJob } from '../../../src/daemon/jobs/job-type.ts'
import type { Jobs } from '../../../src/daemon/jobs/jobs.ts'
import { PERMISSIONS, type Permission } from '../../../src/shared/kernel/permissions.ts'

const Input = z.object({
  /** Each step writes a line into it, once. */
  file: z.string(),
  /** What the lines begin with. */
  name: z.string(),
  steps: z.int(),
  lane: z.string(),
  serverId: z.string().nullable(),
  needs: z.enum(PERMISSIONS as [Permission, ...Permission[]]).nullable(),
})
export type TallyInput = z.infer<typeof Input>

const State = z.object({ key: z.string(), written: z.int(), prepared: z.int() })

/** Writes a line for each of its steps into a file: an effect outside of the database that is seen to happen once. */
export const TALLY = defineJob({
  kind: 'test.tally',
  input: Input,
  state: State,
  first: () => ({ key: '', written: 0, prepared: 0 }),
  title: ({ name }) => `Tally ${name}`,
  pool: { name: 'test', size: 4 },
  lane: ({ lane }) => lane,
  ordered: true,
  background: false,
  plan: ({ steps, name }) => {
    // Steps of this name are not retryable.
    const step = name === 'once' ? 'once' : 'write'
    return Array.from({ length: steps }, (_, i) => ({ step, name: `line ${i + 1}` }))
  },
  needs: ({ serverId, needs }) =>
    serverId === null
      ? { panel: needs ?? 'location.read' }
      : { server: serverId, permissions: [needs ?? 'server.read'] },
})

/** The same as background work whose lanes do not wait for a retry. */
export const QUICK = defineJob({
  kind: 'test.quick',
  input: z.object({ lane: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: () => 'Quick',
  pool: { name: 'quick', size: 16 },
  lane: ({ lane }) => lane,
  ordered: false,
  background: true,
  plan: () => [{ step: 'do', name: 'do' }],
})

/** What a test does at the points of a step; `hold` may wait, fail, or end the process. */
export interface TallyHooks {
  readonly before?: (input: TallyInput, step: number, signal: AbortSignal) => Promise<void>
  readonly after?: (input: TallyInput, step: number, signal: AbortSignal) => Promise<void>
  /** In the transaction before the first attempt; how often it ran is part of the key. */
  readonly prepare?: (input: TallyInput, step: number) => void
  /** In the transaction after the attempt; answers whether the step waits for the jobs that this one has started. */
  readonly finish?: (tx: Tx, jobId: string, step: number) => Promise<boolean>
}

export function registerTally(jobs: Pick<Jobs, 'register'>, hooks: TallyHooks = {}, attempts = 3): void {
  jobs.register(TALLY, {
    steps: {
      write: {
        attempts,
        prepare: async (_, { id, input, state, step }) => {
          hooks.prepare?.(input, step.number)
          return { ...state, prepared: state.prepared + 1, key: `${id}/${step.number}/${state.prepared}` }
        },
        run: async ({ job, signal, progress }) => {
          const { file, name, steps } = job.input
          const { number } = job.step
          progress({ done: number - 1, total: steps, unit: 'items', text: `line ${number}` })
          await hooks.before?.(job.input, number, signal)
          if (!(await linesOf(file)).some((line) => line.endsWith(job.state.key))) {
            await appendFile(file, `${name} ${number} ${job.state.key}\n`)
          }
          await hooks.after?.(job.input, number, signal)
          return async (tx) => {
            const state = { ...job.state, written: job.state.written + 1 }
            return (await hooks.finish?.(tx, job.id, number)) ? { state, after: { kind: 'children' } } : { state }
          }
        },
      },
      once: {
        attempts: 1,
        retryable: false,
        run: async ({ job }) => {
          throw new Error(`${job.input.name} cannot be done`)
        },
      },
    },
  })
}

/** The lines that steps have written so far. */
export async function linesOf(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '') // no step has run yet
  return text.split('\n').filter((line) => line !== '')
}
