import { Registry } from 'prom-client'
import { createBus } from '../../../src/daemon/core/bus.ts'
import { createLog } from '../../../src/daemon/core/log.ts'
import { openDb } from '../../../src/daemon/db/db.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { createJobs } from '../../../src/daemon/jobs/jobs.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { registerTally, TALLY } from './tally-job.ts'

/**
 * The engine in a process of its own: `tally-program <database> <file> <steps> [<before|after|committed> <step>]` runs one job to
 * its end, or kills itself with SIGKILL at that point. It prints how the job ended.
 */
const [file = '', tally = '', steps = '', point = '', at = '0'] = process.argv.slice(2)
const die = async (here: string, step: number): Promise<void> => {
  if (point === here && step === Number(at)) process.kill(process.pid, 'SIGKILL')
}

async function run(): Promise<void> {
  await migrate(file)
  const db = await openDb(file, systemClock)
  const bus = createBus(db)
  const log = createLog({ level: 'error' })
  const deps = {
    db,
    bus,
    clock: systemClock,
    log,
    systemErrors: { capture: () => undefined },
    registry: new Registry(),
  }
  const jobs = createJobs({ ...deps, holderOf: async () => undefined })
  const hooks = {
    before: (_: unknown, step: number) => die('before', step),
    after: (_: unknown, step: number) => die('after', step),
  }
  // An attempt that is cut off counts: more than three kills may meet one step.
  registerTally(jobs, hooks, 10)
  const input = { file: tally, name: 'a', steps: Number(steps), lane: 'one', serverId: null, needs: null }
  const ended = new Promise<string>((resolve) => {
    bus.listen(({ data }) => {
      const job = data['job'] as { readonly status: string; readonly steps: { readonly done: number } } // the event's shape
      if (point === 'committed' && job.steps.done === Number(at)) process.kill(process.pid, 'SIGKILL')
      if (['succeeded', 'failed', 'cancelled'].includes(job.status)) resolve(`${job.status} ${job.steps.done}`)
    })
  })
  await db.write((tx) => jobs.queue.add(tx, TALLY, { input, cause: 'test', key: 'tally' }))
  jobs.start()
  process.stdout.write(`${await ended}\n`)
  await jobs.close()
  await db.close()
}

void run()
