import type { Mutant } from './mutant.ts'

const JOBS = 'test/daemon/jobs/jobs.test.ts'
const KILLS = 'test/daemon/jobs/kill.test.ts'

/** Mistakes in the engine of jobs, each planted alone. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: 'what a killed process has left running is not taken up',
    topic: 'jobs',
    file: 'src/daemon/jobs/runner.ts',
    find: 'if (!taken) await db.write(rows.takeUp)',
    replace: '',
    seenBy: [KILLS],
  },
  {
    title: 'what a step is about to do is not stored before it',
    topic: 'jobs',
    file: 'src/daemon/jobs/advance.ts',
    find: 'const prepared = (await rows.updateJob(tx, now, { state })) ?? now',
    replace: 'const prepared = { ...now, state }',
    seenBy: [KILLS],
  },
  {
    title: 'a job that comes into a lane does not wait for its turn',
    topic: 'jobs',
    file: 'src/daemon/jobs/queue.ts',
    find: 'dueAt: waits ? null : notBefore,',
    replace: 'dueAt: notBefore,',
    seenBy: [JOBS],
  },
  {
    title: 'a lane is not handed on when its job ends',
    topic: 'jobs',
    file: 'src/daemon/jobs/advance.ts',
    find: 'if (row.ordered === 1) await this.#passTurn(tx, row)',
    replace: '',
    seenBy: [JOBS],
  },
  {
    title: 'the rights of whoever started a job are not asked for again',
    topic: 'jobs',
    file: 'src/daemon/jobs/advance.ts',
    find: "if ('refusal' in standing) {",
    replace: "if ('refusal' in standing && attempts > 99) {",
    seenBy: [JOBS],
  },
  {
    title: 'everybody sees every job',
    topic: 'jobs',
    file: 'src/daemon/features/operations/jobs/rows.ts',
    find: 'if (row.serverId === null) return false',
    replace: 'if (row.serverId === null) return true',
    seenBy: [JOBS],
  },
  {
    title: 'a pause that was asked for while a step ran is forgotten',
    topic: 'jobs',
    file: 'src/daemon/jobs/advance.ts',
    find: 'return (await this.#asRequested(tx, row)) ? AWAY : this.#begin(tx, row, row.fence)',
    replace: 'return this.#begin(tx, row, row.fence)',
    seenBy: [JOBS],
  },
  {
    title: 'a cancelled step is not told to end',
    topic: 'jobs',
    file: 'src/daemon/jobs/runner.ts',
    find: 'this.#running.get(jobId)?.ending.abort()',
    replace: 'void jobId',
    seenBy: [JOBS],
  },
]
