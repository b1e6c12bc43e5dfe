import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** A folder and an ordinary user for a service that refuses to run as root. */
export interface ServicePlace {
  readonly folder: string
  readonly owner: { readonly uid: number; readonly gid: number } | Record<never, never>
  readonly user: string
}

/** A folder of its own that belongs to the first of these accounts that there is; without root, to whoever runs the tests. */
export async function servicePlace(name: string, accounts: readonly string[]): Promise<ServicePlace> {
  const folder = await mkdtemp(join(tmpdir(), `panel-${name}-`))
  if (process.getuid?.() !== 0) return { folder, owner: {}, user: String(process.env['USER']) }
  const known = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  for (const account of [...accounts, 'nobody']) {
    const [user, , uid, gid] = known.find(([name]) => name === account) ?? []
    if (user === undefined) continue
    const owner = { uid: Number(uid), gid: Number(gid) }
    await chown(folder, owner.uid, owner.gid)
    return { folder, owner, user }
  }
  throw new Error('there is no ordinary account on this machine')
}

/** Runs a program of the service to its end. */
export async function prepare(place: ServicePlace, program: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(program, [...args], { cwd: place.folder, ...place.owner })
}

/** The process of a service; its output goes to `service.log` in its folder. */
export function launch(place: ServicePlace, program: string, args: readonly string[]): ChildProcess {
  const log = openSync(join(place.folder, 'service.log'), 'a')
  try {
    return spawn(program, [...args], { cwd: place.folder, stdio: ['ignore', log, log], ...place.owner })
  } finally {
    closeSync(log)
  }
}

/** Tries until it works; fails at once, with the service's own words, when its process has ended. */
export async function whenReady<T>(place: ServicePlace, child: ChildProcess, attempt: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + 30_000
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (child.exitCode === null && child.signalCode === null && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 50))
        continue
      }
      throw new Error(`it does not run: ${await readFile(join(place.folder, 'service.log'), 'utf8')}`, { cause: error })
    }
  }
}

/** Writes a certificate and its key where the service may read them; answers the files. */
export async function keep(
  place: ServicePlace,
  folder: string,
  { cert, key }: { readonly cert: string; readonly key: string },
): Promise<{ cert: string; key: string }> {
  const files = { cert: join(folder, 'server.crt'), key: join(folder, 'server.key') }
  for (const [file, text] of [
    [files.cert, cert],
    [files.key, key],
  ] as const) {
    await writeFile(file, text, { mode: 0o600 })
    if ('uid' in place.owner) await chown(file, place.owner.uid, place.owner.gid)
  }
  return files
}

/** Ends a process as a power cut would. */
export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

/** Removes the folder of a service whose processes have ended or are about to. */
export function clear({ folder }: ServicePlace): Promise<void> {
  return rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
}
