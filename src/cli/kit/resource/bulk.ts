import { type Report, reportOf, reportText } from '../report.ts'
import type { Run } from '../run.ts'
import type { Named } from './resolve.ts'

/** How many things are worked on at once. */
const AT_ONCE = 8

/**
 * Does the work for each thing, several at a time. One thing: its failure is thrown. Several: each failure is printed on stderr
 * with the thing's name and handed to `onFailure`, and the exit code is 0 when all went well, 3 when some did, else that of the first failure.
 */
export async function forEach<T extends Named>(
  run: Run,
  things: readonly T[],
  work: (thing: T) => Promise<void>,
  onFailure: (thing: T, report: Report) => void = () => {},
): Promise<number> {
  const [only] = things
  if (only !== undefined && things.length === 1) {
    await work(only)
    return 0
  }
  const exits: number[] = []
  const queue = things.values()
  const worker = async (): Promise<void> => {
    for (const thing of queue) {
      try {
        await work(thing)
        exits.push(0)
      } catch (error) {
        if (run.signal.aborted) throw error
        const report = reportOf(error)
        exits.push(report.exit)
        onFailure(thing, report)
        run.terminal.say(`${thing.name}: ${reportText(report, run.command).trimEnd()}`)
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return summarise(run, exits)
}

function summarise(run: Run, exits: readonly number[]): number {
  const failed = exits.filter((code) => code !== 0)
  run.notice(
    `${exits.length - failed.length} of ${exits.length} done${failed.length === 0 ? '' : `, ${failed.length} failed`}`,
  )
  if (failed.length === 0) return 0
  return failed.length < exits.length ? 3 : (failed[0] ?? 1)
}
