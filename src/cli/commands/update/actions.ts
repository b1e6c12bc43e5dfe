import * as api from '../../../shared/api/updates.ts'
import { parseDuration } from '../../../shared/kernel/clock.ts'
import type { Data } from '../../../shared/kernel/contract.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'

const NEWER = 10
const FAILED = 11
/** Nobody can say: the host names no feed, or the feed has no answer. */
const UNKNOWN = 14
const NOTHING = { params: {} }

type Check = Data<typeof api.checkUpdate>

const CHECK: View<Check> = {
  id: (row) => row.currentVersion,
  name: (row) => row.currentVersion,
  columns: [
    column('INSTALLED', (row) => row.currentVersion),
    column('NEWEST', (row) => row.latestVersion ?? 'unknown'),
    column('UPDATE', answerOf),
  ],
}

const STATUS: View<api.UpdateStatus> = {
  id: (row) => row.currentVersion,
  name: (row) => row.currentVersion,
  columns: [
    column('INSTALLED', (row) => row.currentVersion),
    column('NEWEST', (row) => row.latestVersion ?? 'unknown'),
    column('UPDATE', answerOf),
    column('WHY', (row) => row.checkError),
    column('CHECKED', (row) => ({ time: row.lastCheckedAt })),
    column('PUBLISHED', (row) => ({ time: row.publishedAt })),
    column('RELEASE', (row) => row.releaseUrl),
    column('INSTALLED AS', (row) => row.origin),
  ],
}

const STATE: View<api.UpdateState> = {
  id: (row) => row.state,
  name: (row) => row.state,
  columns: [
    column('STATE', (row) => ({ status: row.state })),
    column('PROGRESS', (row) => (row.progress === null ? null : `${row.progress} %`)),
    column('MESSAGE', (row) => row.message),
    column('VERSION', (row) => row.targetVersion),
    column('STARTED', (row) => ({ time: row.startedAt })),
    column('FINISHED', (row) => ({ time: row.finishedAt })),
    column('ERROR', (row) => row.error),
    column('LOG', (row) => row.log.join('; ')),
  ],
}

export const check: Action = async (run) => {
  const found = await call(run, api.checkUpdate, NOTHING)
  await run.out.item(found, CHECK)
  if (found.latestVersion !== null) return exitOf(run, found)
  run.notice('the newest version is not known; `panel update status` says why')
  return UNKNOWN
}

export const status: Action = async (run) => {
  const found = await call(run, api.getUpdateStatus, NOTHING)
  await run.out.item(found, STATUS)
  return exitOf(run, found)
}

/** Prints each state once; what is not under way needs no waiting. */
export const watch: Action = async (run) => {
  const text = run.args.text('interval')
  const interval = text === undefined ? 1000 : parseDuration(text)
  if (interval === undefined || interval <= 0) throw usage(`--interval is a duration such as 2s, not '${text}'`)
  let shown = ''
  for (;;) {
    const now = await call(run, api.getUpdateState, NOTHING)
    const ended = run.args.flag('once') || ['idle', 'completed', 'failed'].includes(now.state)
    if (ended) {
      await run.out.item(now, STATE)
      return now.state === 'failed' ? FAILED : 0
    }
    const line = `${now.state}${now.progress === null ? '' : ` ${now.progress} %`}${now.message === null ? '' : `: ${now.message}`}`
    if (line !== shown) run.notice(line)
    shown = line
    await run.clock.sleep(interval, run.signal)
    run.signal.throwIfAborted()
  }
}

type Versions = Pick<Check, 'latestVersion' | 'updateAvailable'>

/** What is not known is not "no". */
function answerOf({ latestVersion, updateAvailable }: Versions): boolean | string {
  return latestVersion === null ? 'unknown' : updateAvailable
}

function exitOf(run: Run, { latestVersion, updateAvailable }: Versions): number {
  if (!run.args.flag('detailed-exitcode')) return 0
  if (latestVersion === null) return UNKNOWN
  return updateAvailable ? NEWER : 0
}
