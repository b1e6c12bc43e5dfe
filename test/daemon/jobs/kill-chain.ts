import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DIST } from '../../run-panel.ts'
import { linesOf } from './tally-job.ts'

/** A point of a step at which the engine's process is killed: before its effect, after it, after the commit of it. */
export type KillPoint = readonly ['before' | 'after' | 'committed', number]

/** What came of a job of `steps` steps whose process was killed at each of the points, one after the other. */
export async function runThroughKills(steps: number, points: readonly KillPoint[]) {
  const folder = await mkdtemp(join(tmpdir(), 'panel-jobs-'))
  const [database, tally] = [join(folder, 'panel.db'), join(folder, 'tally')]
  const run = (...point: readonly string[]): Promise<{ signal: string | undefined; stdout: string }> =>
    new Promise((resolve, reject) => {
      const args = [join(DIST, 'bin', 'tally-program.js'), database, tally, String(steps), ...point]
      execFile(process.execPath, args, { timeout: 60_000 }, (error, stdout, stderr) => {
        if (error === null || error.signal === 'SIGKILL') resolve({ signal: error?.signal, stdout })
        else reject(new Error(`${error.message} ${stderr}`))
      })
    })
  try {
    let kills = 0
    for (const [point, step] of points) {
      const { signal } = await run(point, String(step))
      if (signal === 'SIGKILL') kills += 1
    }
    const { stdout } = await run()
    const numbers = (await linesOf(tally)).map((line) => Number(line.split(' ')[1]))
    return { kills, ended: stdout.trim(), numbers }
  } finally {
    await rm(folder, { recursive: true })
  }
}
