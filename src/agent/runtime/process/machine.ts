import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ENTER_USER_NAMESPACE, LOCK_USER_NAMESPACE, MOUNTS, TOOL_PATH, UNSHARE } from '../../holder/process/launcher.ts'
import { openUserNamespace } from '../../holder/process/user-namespace.ts'
import { FIRST_SERVER_UID } from '../server-users.ts'
import { type CgroupBase, findCgroups, optionalLimits } from './cgroup-places.ts'

/** What the process runtime can do on this machine, by trial. */
export interface Machine {
  /** A program that nothing works without is missing. */
  readonly missing: string | null
  /** Servers can have users of their own. */
  readonly users: boolean
  /** Runs can have a private mount namespace. */
  readonly mounts: boolean
  /** A program can be locked into a user namespace in which it can make no further one. */
  readonly locks: boolean
  readonly cgroups: CgroupBase | null
  /** Whether runs can be kept to some processors, and have a share of disk time. */
  readonly cpuSets: boolean
  readonly ioWeights: boolean
}

const TOOLS = ['flock', 'mkfifo', 'setsid', 'prlimit'] as const

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
  const [missing, users, mounts, locks, cgroups] = await Promise.all([
    firstMissing(),
    root && works('setpriv', [...asUser, 'true']),
    root && canMount(),
    root && canLock(['setpriv', ...asUser]),
    findCgroups(),
  ])
  const optional = await optionalLimits(cgroups)
  return { missing, users, mounts: users && mounts, locks: users && locks, cgroups, ...optional }
}

/** Whether the private folders of a run can be made, as a run makes them. */
function canMount(): Promise<boolean> {
  const [program, ...args] = UNSHARE
  return works(program, [...args, '/bin/sh', '-c', MOUNTS, 'panel', '1m', 'true'])
}

/** Whether a program that is locked in starts, and then makes no user namespace. */
async function canLock(asUser: readonly string[]): Promise<boolean> {
  let namespace: number
  try {
    namespace = await openUserNamespace()
  } catch {
    return false // the kernel, or whoever runs this machine, does not allow it
  }
  try {
    const [program, ...args] = [...ENTER_USER_NAMESPACE, '/bin/sh', '-c', LOCK_USER_NAMESPACE, 'panel', ...asUser]
    const trial = spawn(program, [...args, '/bin/sh', '-c', '! unshare --user true'], {
      stdio: ['ignore', 'ignore', 'ignore', 'ignore', 'ignore', 'ignore', namespace],
      env: { PATH: TOOL_PATH },
      timeout: 10_000,
    })
    return await endsWell(trial)
  } finally {
    closeSync(namespace)
  }
}

async function endsWell(trial: ChildProcess): Promise<boolean> {
  try {
    const [code] = await once(trial, 'exit')
    return code === 0
  } catch {
    return false // the program is missing
  }
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
    execFile(program, args, { env: { PATH: TOOL_PATH }, cwd: '/', timeout: 10_000 }, (error) => resolve(error === null))
  })
}
