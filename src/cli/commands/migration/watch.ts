import type { Action } from '../../kit/command.ts'
import { jobOf } from './job.ts'
import { settle } from './outcome.ts'

/** `panel migration watch`. */
export const watchMigration: Action = async (run) =>
  settle(run, await jobOf(run), { timeoutMs: run.args.duration('timeout') })
