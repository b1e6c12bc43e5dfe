import { readFile } from 'node:fs/promises'
import * as api from '../../../shared/api/backups.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { parsePair } from '../../kit/read-file.ts'
import { call } from '../../kit/resource/actions.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { readServer } from '../servers/watch.ts'
import { address } from './address.ts'
import { outcomeOf } from './outcome.ts'
import { STARTED } from './views.ts'

/** `panel backups restore`. */
export const restoreBackup: Action = async (run) => {
  const { params, server, name } = await address(run)
  const word = run.args.text('to-server')
  const target = word === undefined ? server : await resolve(run, 'server', word)
  const body = await bodyOf(run)
  if (word !== undefined) body['toServerId'] = target.id
  // All of it takes the place of what is there, which is agreed to by name; single paths by yes.
  const { name: shown } = await readServer(run, target.id)
  if (body['paths'] === undefined || body['databases'] === true) {
    const what = body['files'] === false ? 'the databases' : 'the files'
    await run.prompt.confirmName(`Replace ${what} of ${shown} by the backup ${name}?`, shown)
  } else if (!run.args.flag('keep')) {
    await run.prompt.confirm(`Replace what ${shown} has at these paths by the backup ${name}?`)
  }
  const started = await call(run, api.restoreBackup, { params, body })
  const job = await outcomeOf(run, started.jobId)
  if (job === undefined) {
    await run.out.item(started, STARTED)
    return 0
  }
  if (run.out.machine) await run.out.value({ ...started, status: 'completed', serverId: target.id })
  else run.notice(`restored ${name} to ${shown}`)
  return 0
}

async function bodyOf(run: Run): Promise<Record<string, unknown>> {
  const paths = [...run.args.list('path'), ...(await pathsFrom(run.args.text('paths-from')))]
  const map = Object.fromEntries(run.args.list('database').map((text) => parsePair(text, '--database')))
  const [withDatabases, alone] = [run.args.flag('databases'), run.args.flag('databases-only')]
  if (alone && paths.length > 0) throw usage('--databases-only and --path exclude each other')
  const wantsDatabases = withDatabases || alone || Object.keys(map).length > 0
  if (run.args.flag('keep') && paths.length === 0)
    throw usage('--keep is for --path', '--keep-others keeps other files')
  return {
    ...(paths.length === 0 ? {} : { paths, replace: !run.args.flag('keep') }),
    ...(run.args.flag('keep-others') ? { keepOthers: true } : {}),
    ...(run.args.flag('pre-backup') ? { preBackup: true } : {}),
    ...(alone ? { files: false } : {}),
    ...(wantsDatabases ? { databases: true } : {}),
    ...(Object.keys(map).length === 0 ? {} : { databaseMap: map }),
    ...(run.args.flag('force-databases') ? { forceDatabases: true } : {}),
  }
}

async function pathsFrom(file: string | undefined): Promise<string[]> {
  if (file === undefined) return []
  try {
    return (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '')
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error'
    throw new CliFailure('FILE_UNREADABLE', `${file} cannot be read (${code})`, { cause })
  }
}
