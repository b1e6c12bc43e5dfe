import type { Action } from '../../kit/command.ts'
import { column, type View } from '../../kit/output/view.ts'

/** `panel daemon run`. */
export const runDaemon: Action = (run) => {
  const { args, roles } = run
  const format = args.text('log-format')
  const start = args.flag('check') ? roles.checkDaemon : roles.runDaemon
  return start({
    config: args.text('config'),
    listen: args.text('listen'),
    dataDir: args.text('data-dir'),
    logFormat: format === 'json' || format === 'pretty' ? format : undefined,
    logLevel: args.text('log-level'),
  })
}

interface Status {
  readonly status: 'running' | 'stopped' | 'unknown'
  readonly ready: boolean | null
  readonly pid: number | null
  readonly url: string | null
  readonly startedAt: string | null
  readonly dataDir: string | null
}

const STATUS: View<Status> = {
  id: (row) => String(row.pid ?? ''),
  name: (row) => row.status,
  columns: [
    column('STATUS', (row) => ({ status: row.status })),
    column('READY', (row) => row.ready),
    column('PID', (row) => row.pid),
    column('URL', (row) => row.url),
    column('STARTED', (row) => ({ time: row.startedAt })),
    column('DATA', (row) => row.dataDir),
  ],
}

/** By the lock of the data folder and `/readyz`; exit codes of the LSB: 0 running, 3 stopped, 4 unknown. */
export const daemonStatus: Action = async (run) => {
  const found = await run.roles.findDaemon({ dataDir: run.args.text('data-dir') })
  if (found === undefined) {
    await run.out.item<Status>(
      { status: 'stopped', ready: null, pid: null, url: null, startedAt: null, dataDir: null },
      STATUS,
    )
    return 3
  }
  const ready = found.url === undefined ? null : await isReady(run, found.url)
  const status = ready === null ? 'unknown' : 'running'
  const { pid, url, startedAt, dataDir } = found
  await run.out.item<Status>({ status, ready, pid, url: url ?? null, startedAt: startedAt ?? null, dataDir }, STATUS)
  return status === 'running' ? 0 : 4
}

/** `null`: it holds its data folder but does not answer. */
async function isReady(run: Parameters<Action>[0], url: string): Promise<boolean | null> {
  const { fetch } = await run.connectTo(url, undefined)
  try {
    const answer = await fetch(new URL('/readyz', url).href, { method: 'GET', headers: { accept: 'application/json' } })
    return answer.status === 200
  } catch {
    return null // reported as `unknown`
  }
}
