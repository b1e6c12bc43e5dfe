import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

/** Clock ticks per second of /proc; Linux has had 100 on all our machines for ever (USER_HZ). */
const TICKS = 100

/** CPU seconds that the process has used so far. */
export async function cpuSeconds(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS
}

/** Resident memory of the process in MiB. */
export async function residentMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024
}

/** The process's share of memory in MiB: pages that several processes share are divided among them. */
export async function proportionalMiB(pid: number): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8')
  return Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1]) / 1024
}

/** How often the process's threads have waited for something so far: each time one of them is woken up. */
export async function wakeups(pid: number): Promise<number> {
  const threads = await readdir(`/proc/${pid}/task`)
  const counts = await Promise.all(
    threads.map(async (id) => {
      const status = await readFile(`/proc/${pid}/task/${id}/status`, 'utf8').catch(() => '') // it has ended meanwhile
      return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1] ?? 0)
    }),
  )
  return counts.reduce((sum, count) => sum + count, 0)
}

/** A process of this machine. */
export interface SeenProcess {
  readonly pid: number
  readonly parent: number
  readonly commandLine: string
}

/** All processes of the machine. */
export async function allProcesses(): Promise<SeenProcess[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const seen = await Promise.all(
    pids.map(async (pid) => {
      try {
        const [line, stat] = await Promise.all([
          readFile(`/proc/${pid}/cmdline`, 'utf8'),
          readFile(`/proc/${pid}/stat`, 'utf8'),
        ])
        const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
        return [{ pid, parent, commandLine: line.replaceAll('\0', ' ') }]
      } catch {
        return [] // it has ended meanwhile: it is none of the processes of now
      }
    }),
  )
  return seen.flat()
}

/** These processes together with all their descendants. */
export function withDescendants(all: readonly SeenProcess[], roots: readonly SeenProcess[]): SeenProcess[] {
  const found = new Set(roots)
  for (let size = 0; size !== found.size; ) {
    size = found.size
    const pids = new Set([...found].map(({ pid }) => pid))
    for (const process of all) if (pids.has(process.parent)) found.add(process)
  }
  return [...found]
}

/** What a process uses while `work` runs: CPU in percent of a core, and its resident memory at the end. */
export async function usage<T>(pid: number, work: () => Promise<T>): Promise<{ result: T; cpu: number; rss: number }> {
  const [cpuBefore, began] = [await cpuSeconds(pid), performance.now()]
  const result = await work()
  const seconds = (performance.now() - began) / 1000
  return { result, cpu: (((await cpuSeconds(pid)) - cpuBefore) / seconds) * 100, rss: await residentMiB(pid) }
}

/** A child process of the bench that is asked one thing at a time. */
export class Helper {
  readonly #child: ChildProcess

  /** Starts a file of this folder, named without its ending. */
  constructor(name: string, args: readonly string[] = []) {
    this.#child = fork(fileURLToPath(new URL(`./${name}.js`, import.meta.url)), args, {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
  }

  /** The id of its process. */
  get pid(): number {
    if (this.#child.pid === undefined) throw new Error('a helper of the bench was not started')
    return this.#child.pid
  }

  /** Sends the question and resolves with the next answer; rejects when the child ends instead. */
  ask<A>(question: unknown): Promise<A> {
    return new Promise((resolve, reject) => {
      const ended = (code: number | null): void => reject(new Error(`a helper of the bench ended with ${code}`))
      this.#child.once('exit', ended)
      this.#child.once('message', (answer) => {
        this.#child.off('exit', ended)
        resolve(answer as A) // both ends are files of this folder and share the type
      })
      this.#child.send(question as object) // any JSON value will do
    })
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill()
    await ended
  }
}

/** Answers the questions of the bench in a {@link Helper}'s process. */
export function answerAll(answer: (question: unknown) => Promise<unknown>): void {
  process.on('message', (question) => {
    answer(question).then(
      (result) => process.send?.(result ?? null),
      (error: unknown) => {
        process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`)
        process.exit(1)
      },
    )
  })
  process.on('disconnect', () => process.exit())
}
