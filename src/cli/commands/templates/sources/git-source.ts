import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { CliFailure, usage } from '../../../kit/failure.ts'
import { SOURCE_LIMITS, type SourceFile, SourceFiles, tooMuch } from './source-file.ts'

/** A repository and what of it. */
export interface GitSource {
  readonly url: string
  /** A branch or tag; absent: the one that the repository names. */
  readonly ref?: string | undefined
  /** The transports that git may use. */
  readonly protocols: 'https:ssh' | 'file'
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  readonly clock: Clock
}

const MOST_SAID = 8 * 1024
const LOOK_MS = 500

/**
 * The files of a repository that may be eggs, by the system's git: its newest commit alone, without a working tree, so that nothing of the repository
 * is run or written under a name of its choice. Removes what it fetched. Throws a CliFailure: exit 14 without git, 124 after two minutes.
 */
export async function readRepository(source: GitSource): Promise<readonly SourceFile[]> {
  const { ref, url } = source
  if (ref !== undefined && !/^[A-Za-z0-9_][A-Za-z0-9_./+-]{0,199}$/.test(ref))
    throw usage(`--ref '${ref}' is no name of a branch or tag`)
  const folder = await mkdtemp(join(tmpdir(), 'panel-source-'))
  try {
    const limited = AbortSignal.any([source.signal, AbortSignal.timeout(SOURCE_LIMITS.ms)])
    const at = { ...source, signal: limited, folder }
    const branch = ref === undefined ? [] : [`--branch=${ref}`]
    const options = [
      '--quiet',
      '--bare',
      '--depth=1',
      '--single-branch',
      '--no-tags',
      '--no-recurse-submodules',
      '--template=',
    ]
    await git(at, ['clone', ...options, ...branch, '--', url, folder])
    return await readCommit(at)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

type At = GitSource & { readonly folder: string }

async function readCommit(at: At): Promise<readonly SourceFile[]> {
  const files = new SourceFiles()
  const tree = await git(at, [`--git-dir=${at.folder}`, 'ls-tree', '-r', '-z', '-l', '--full-tree', 'HEAD'])
  const blobs: { path: string; id: string; size: number }[] = []
  for (const line of tree.toString('utf8').split('\0')) {
    if (line === '') continue
    files.entry()
    const [facts = '', path = ''] = [line.slice(0, line.indexOf('\t')), line.slice(line.indexOf('\t') + 1)]
    const [mode = '', , id = '', bytes = ''] = facts.split(/ +/)
    const size = Number(bytes)
    // 120000 is a link, 160000 another repository.
    if (mode.startsWith('100') && Number.isInteger(size) && files.takes(path, size)) blobs.push({ path, id, size })
  }
  if (blobs.length === 0) return []
  const contents = await git(
    at,
    [`--git-dir=${at.folder}`, 'cat-file', '--batch'],
    `${blobs.map(({ id }) => id).join('\n')}\n`,
  )
  let from = 0
  for (const { path, size } of blobs) {
    const begin = contents.indexOf('\n', from) + 1
    files.add(path, contents.subarray(begin, begin + size))
    from = begin + size + 1
  }
  return files.found
}

/** Runs git and answers what it prints; ended with all its helpers when the time, the size or the signal says so. */
async function git(at: At, args: readonly string[], input?: string): Promise<Buffer> {
  const fixed = ['core.hooksPath=/dev/null', 'gc.auto=0', 'transfer.fsckObjects=true', 'http.followRedirects=initial']
  const child = spawn('git', [...fixed.flatMap((setting) => ['-c', setting]), ...args], {
    // A group of its own: git's helpers end with it.
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      GIT_SSH_COMMAND: 'ssh -o BatchMode=yes',
      ...at.environment,
      GIT_TERMINAL_PROMPT: '0',
      GIT_ALLOW_PROTOCOL: at.protocols,
      GIT_ASKPASS: 'true',
      GIT_LFS_SKIP_SMUDGE: '1',
    },
  })
  let tooLarge = false
  const watch = new AbortController()
  const stop = (): void => endGroup(child)
  at.signal.addEventListener('abort', stop, { signal: watch.signal })
  void watchSize(at, watch.signal, () => {
    tooLarge = true
    stop()
  })
  try {
    const ended = await outputOf(child, input)
    if (tooLarge) throw tooMuch('more than 256 MiB')
    if (at.signal.aborted) throw at.signal.reason
    if (ended.code === 0) return ended.output
    const why = ended.said.trim() === '' ? `git ended with ${ended.code}` : ended.said.trim()
    throw new CliFailure('OPERATION_FAILED', `The repository cannot be read: ${why}`)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      throw new CliFailure('HOST_PRECONDITION', 'Reading a repository needs git, which this machine does not have', {
        cause: error,
      })
    }
    if (error instanceof DOMException && error.name === 'TimeoutError') {
      throw new CliFailure('TIMEOUT', 'The repository took longer than two minutes', { cause: error })
    }
    throw error
  } finally {
    watch.abort()
  }
}

interface Ended {
  readonly code: number | null
  readonly output: Buffer
  readonly said: string
}

function outputOf(child: ChildProcess, input: string | undefined): Promise<Ended> {
  const pieces: Buffer[] = []
  let bytes = 0
  let said = ''
  child.stdout?.on('data', (piece: Buffer) => {
    bytes += piece.length
    if (bytes > 2 * SOURCE_LIMITS.totalBytes) endGroup(child)
    else pieces.push(piece)
  })
  child.stderr?.on('data', (piece: Buffer) => {
    said = (said + piece.toString('utf8')).slice(-MOST_SAID)
  })
  child.stdin?.on('error', () => {}) // it has ended; its exit says why
  child.stdin?.end(input ?? '')
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output: Buffer.concat(pieces), said }))
  })
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // it has ended by itself
  }
}

/** Git has no bound of its own for what it fetches. */
async function watchSize({ folder, clock }: At, signal: AbortSignal, tooLarge: () => void): Promise<void> {
  while (!signal.aborted) {
    if ((await sizeOf(folder)) > SOURCE_LIMITS.packedBytes) return tooLarge()
    await clock.sleep(LOOK_MS, signal)
  }
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    const facts = entry.isFile() ? await stat(join(entry.parentPath, entry.name)).catch(() => undefined) : undefined
    bytes += facts?.size ?? 0 // gone meanwhile: git has renamed it
  }
  return bytes
}
