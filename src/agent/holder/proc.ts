import { readdirSync, readlinkSync } from 'node:fs'
import { readKernelText } from './kernel-text.ts'

/** What /proc shows of one process. Memory in bytes, CPU in seconds. */
export interface ProcessFacts {
  readonly pid: number
  readonly ppid: number
  readonly group: number
  readonly session: number
  readonly start: string
  readonly cpuSeconds: number
  readonly rssBytes: number
}

/** The kernel counts CPU time in hundredths of a second towards programs. */
const TICKS = 100
const PAGE_BYTES = 4096

/** The facts of a living process; `undefined` for none and for a zombie. */
export function processFacts(pid: number): ProcessFacts | undefined {
  let text: string
  try {
    text = readKernelText(`/proc/${pid}/stat`)
  } catch {
    return undefined // no such process: that is the answer
  }
  const field = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (field[0] === 'Z' || field[0] === 'X') return undefined
  return {
    pid,
    ppid: Number(field[1]),
    group: Number(field[2]),
    session: Number(field[3]),
    start: field[19] ?? '',
    cpuSeconds: (Number(field[11]) + Number(field[12])) / TICKS,
    rssBytes: Number(field[21]) * PAGE_BYTES,
  }
}

/** CPU seconds that the calling thread has had; 0 where the kernel does not list threads by themselves. */
export function threadCpuSeconds(): number {
  const text = readProc('/proc/thread-self/stat')
  if (text === undefined) return 0
  const field = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(field[11]) + Number(field[12])) / TICKS
}

/** Bytes of a process's memory: of its own, and shared (with others, or files in memory); nothing when it is gone. */
export function processMemory(pid: number): { own: number; shared: number } {
  const text = readProc(`/proc/${pid}/status`) ?? ''
  const bytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) * 1024
  return { own: bytes('RssAnon') + bytes('RssFile'), shared: bytes('RssShmem') }
}

/** Whether the process that began at `start` still lives, as a program and not as a zombie. */
export function isAlive(pid: number, start: string): boolean {
  return processFacts(pid)?.start === start
}

/** Every process number of the machine. */
export function allPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** A process's real user id, `undefined` when it is gone. */
export function uidOf(pid: number): number | undefined {
  const line = /^Uid:\t(\d+)/m.exec(readProc(`/proc/${pid}/status`) ?? '')
  return line?.[1] === undefined ? undefined : Number(line[1])
}

/** The values of a variable that a process was started with, of which a program can give it several; not readable means none. */
export function valuesOfVariable(pid: number, name: string): string[] {
  const variables = readProc(`/proc/${pid}/environ`)?.split('\0') ?? []
  return variables.filter((one) => one.startsWith(`${name}=`)).map((one) => one.slice(name.length + 1))
}

/** A process's arguments, with NUL between them; empty when it is gone. */
export function commandLine(pid: number): string {
  return readProc(`/proc/${pid}/cmdline`) ?? ''
}

/** Bytes that a process has read from and written to disks. */
export function diskBytes(pid: number): { read: number; write: number } | undefined {
  const text = readProc(`/proc/${pid}/io`)
  const read = /^read_bytes: (\d+)/m.exec(text ?? '')?.[1]
  const write = /^write_bytes: (\d+)/m.exec(text ?? '')?.[1]
  return read === undefined || write === undefined ? undefined : { read: Number(read), write: Number(write) }
}

/** The program that a process runs, `undefined` when it is gone or not ours to see. */
export function programOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`)
  } catch {
    return undefined // gone, or another user's: both mean that it is not known
  }
}

/** Changes with every boot of the machine. */
export function bootId(): string {
  return readProc('/proc/sys/kernel/random/boot_id')?.trim() ?? 'unknown' // then a reboot looks like a lost process, which is handled as well
}

function readProc(path: string): string | undefined {
  try {
    return readKernelText(path)
  } catch {
    return undefined // the process ended in between, or belongs to somebody else
  }
}
