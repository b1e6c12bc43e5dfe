import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { TOOL_PATH } from '../holder/launcher.ts'
import { type CgroupBase, findCgroups } from './cgroup-places.ts'
import { FIRST_SERVER_UID } from './server-users.ts'

/** What the process runtime can do on this machine, by trial. */
export interface Machine {
  /** A program that nothing works without is missing. */
  readonly missing: string | null
  /** Servers can have users of their own. */
  readonly users: boolean
  /** Runs can have a private mount namespace. */
  readonly mounts: boolean
  readonly cgroups: CgroupBase | null
}

const TOOLS = ['flock', 'mkfifo', 'setsid', 'prlimit'] as const
const MOUNT_TRIAL = 'mount -t tmpfs panel /mnt && mkdir /mnt/server && mount --no-canonicalize --bind / /mnt/server'

/** Finds out what this machine allows. */
export async function studyMachine(): Promise<Machine> {
  const root = process.getuid?.() === 0
  const uid = String(FIRST_SERVER_UID)
  const asUser = [
    `--reuid=${uid}`,
    `--regid=${uid}`,
    '--clear-groups',
    '--no-new-privs',
    '--inh-caps=-all',
    '--bounding-set=-all',
  ]
  const [missing, users, mounts, cgroups] = await Promise.all([
    firstMissing(),
    root && works('setpriv', [...asUser, 'true']),
    root && works('unshare', ['--mount', '--propagation', 'private', '/bin/sh', '-c', MOUNT_TRIAL]),
    findCgroups(),
  ])
  return { missing, users, mounts: users && mounts, cgroups }
}

/** Whether any user can enter every folder above `path`. */
export async function othersCanReach(path: string): Promise<boolean> {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (((await stat(folder)).mode & 0o001) === 0) return false
    if (folder === dirname(folder)) return true
  }
}

async function firstMissing(): Promise<string | null> {
  for (const tool of TOOLS) if (!(await works('/bin/sh', ['-c', 'command -v "$1"', 'sh', tool]))) return tool
  return null
}

function works(program: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(program, args, { env: { PATH: TOOL_PATH }, timeout: 10_000 }, (error) => resolve(error === null))
  })
}
