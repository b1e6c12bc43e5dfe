import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { kindProblem } from '../../../../shared/kernel/file-problem.ts'
import { CliFailure, usage } from '../../../kit/failure.ts'
import { readBytes } from '../../../kit/read-file.ts'
import type { Run } from '../../../kit/run.ts'
import { archiveKind, readArchive } from './archive-source.ts'
import { readFolder } from './folder-source.ts'
import { readRepository } from './git-source.ts'
import type { SourceFile } from './source-file.ts'

/** `user@host:path`, as ssh writes it. */
const SCP = /^[A-Za-z0-9_.-]{1,64}@[A-Za-z0-9.-]{1,255}:[^\s:][^\s]{0,1000}$/

/** The files of a source that may be eggs: a git URL, a folder, an archive, or one file. Only this machine reads it, never the daemon. */
export async function readSource(run: Run, from: string): Promise<readonly SourceFile[]> {
  const ref = run.args.text('ref')
  const files = await filesOf(run, from, ref)
  const below = run.args.text('folder')?.replace(/^\.?\/+|\/+$/g, '')
  if (below === undefined || below === '') return files
  // The archives of the usual hosts have one folder around everything.
  return files.filter(({ path }) => `/${path}`.includes(`/${below}/`))
}

async function filesOf(run: Run, from: string, ref: string | undefined): Promise<readonly SourceFile[]> {
  const git = { ref, environment: run.env.git, signal: run.signal, clock: run.clock }
  if (from.startsWith('-')) throw usage(`'${from}' is no source`)
  if (SCP.test(from) || /^(?:https|ssh):\/\//i.test(from)) {
    refuseSecret(from)
    return readRepository({ ...git, url: from, protocols: 'https:ssh' })
  }
  if (/^[a-z][a-z0-9+.-]*:/i.test(from)) {
    throw usage('a source is an https or ssh URL of a git repository, a folder, or an archive on this machine')
  }
  const facts = await stat(from).catch((error: unknown) => {
    throw new CliFailure('FILE_UNREADABLE', `There is no ${from} on this machine`, { cause: error })
  })
  if (facts.isDirectory()) {
    if (ref === undefined) return readFolder(from)
    return readRepository({ ...git, url: pathToFileURL(resolve(from)).href, protocols: 'file' })
  }
  const problem = kindProblem(from, facts)
  if (problem !== undefined) throw new CliFailure('FILE_UNREADABLE', `${problem}; give a folder, an archive or an egg`)
  if (ref !== undefined) throw usage('--ref is for git repositories')
  if (archiveKind(from) !== undefined) return readArchive(from, run.signal)
  return [{ path: from.slice(from.lastIndexOf('/') + 1), content: await readBytes(from) }]
}

/** Arguments of processes are seen by every user of a machine, and stay in the history of the shell. */
function refuseSecret(url: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined) return
  const isNamed = parsed.protocol === 'https:' && parsed.username !== ''
  if (parsed.password === '' && !isNamed) return
  throw usage(
    'the URL has credentials in it, which others on this machine can see; let a credential helper of git give them',
  )
}
