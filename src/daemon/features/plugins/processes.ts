import { readdirSync, readFileSync } from 'node:fs'

const PAGE_BYTES = 4096

/** The memory of a process in bytes; 0 when it is gone. */
export function memoryOf(pid: number): number {
  return Number(readProc(`/proc/${pid}/statm`)?.split(' ')[1] ?? 0) * PAGE_BYTES
}

/** Which processes belong to a plugin: those of its user, or, where it has none of its own, those with its mark. */
export interface Belonging {
  readonly uid: number | null
  /** A variable of the environment as it stands there: `NAME=value`. */
  readonly mark: string
}

/** Every process that belongs to a plugin, except this one. */
export function processesOf({ uid, mark }: Belonging): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const belongs = (pid: string): boolean =>
    uid === null ? (readProc(`/proc/${pid}/environ`)?.split('\0').includes(mark) ?? false) : uidOf(pid) === uid
  return all.filter((pid) => Number(pid) !== process.pid && belongs(pid) && isRunning(pid)).map(Number)
}

/** Ends every process that belongs to a plugin, and those that they start meanwhile. */
export function killAll(of: Belonging): void {
  for (let round = 0; round < 5; round++) {
    const pids = processesOf(of)
    if (pids.length === 0) return
    for (const pid of pids) kill(pid)
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // it has ended in between: that is what was wanted
  }
}

function uidOf(pid: string): number | undefined {
  const uid = /^Uid:\t(\d+)/m.exec(readProc(`/proc/${pid}/status`) ?? '')?.[1]
  return uid === undefined ? undefined : Number(uid)
}

function isRunning(pid: string): boolean {
  return !/^State:\t[ZX]/m.test(readProc(`/proc/${pid}/status`) ?? 'State:\tX')
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined // the process ended in between, or belongs to somebody else
  }
}
