import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { AgentStage } from '../agent/agent-stage.ts'
import { until } from '../e2e/wait.ts'

/** What changes a file system, as Node calls it. */
const CHANGES = [
  'mkdir',
  'rename',
  'fsync',
  'unlink',
  'rmdir',
  'symlink',
  'fchmod',
  'fchown',
  'utimensat',
  'write',
] as const
const MOST_POINTS = 60
/** Of writes there are as many as pieces: the first ones are enough. */
const MOST_WRITES = 6

/** The agent is ended when it is about to make this change for the `number`-th time. */
export interface KillPoint {
  readonly change: (typeof CHANGES)[number]
  readonly number: number
}

/** Whether this machine lets a process be ended by its system calls. */
export const canKillAtPoints = spawnSync('strace', ['-qq', '-e', 'trace=none', 'true']).status === 0

/** Does work with an agent that is ended at a point, and starts another one; `false` when the work was done before it came to that. */
export async function killedAt(
  stage: AgentStage,
  { change, number }: KillPoint,
  work: () => Promise<unknown>,
): Promise<boolean> {
  const inject = `inject=${change}:signal=KILL:when=${number}`
  const args = ['-f', '-p', String(stage.pid), '-e', `trace=${change}`, '-e', inject]
  const tracer = spawn('strace', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  tracer.stderr.on('data', (piece: Buffer) => {
    said += piece.toString()
  })
  await until('the tracer is there', async () => /attached/.test(said))
  const done = work().then(
    () => true,
    () => false, // nobody answers any more
  )
  const ended = once(tracer, 'exit').then(() => false)
  const isDone = await Promise.race([done, ended])
  if (isDone) {
    tracer.kill('SIGINT')
    await ended
    return false
  }
  await stage.killAgent()
  await stage.startAgent()
  return true
}

/** Does it for each point, until the work has no more of a kind; answers how many there were. */
export async function atEachPoint(work: (point: KillPoint) => Promise<boolean>): Promise<number> {
  let points = 0
  for (const change of CHANGES) {
    const most = change === 'write' ? MOST_WRITES : MOST_POINTS
    for (let number = 1; number <= most; number++) {
      if (!(await work({ change, number }))) break
      points++
    }
  }
  return points
}
