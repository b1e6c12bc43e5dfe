import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { cpuSeconds } from './processes.ts'

/** What some work has cost the processes that did it. `instructions` is `null` where the machine does not count them. */
export interface Cost {
  readonly cpuMs: number
  readonly instructions: number | null
  readonly seconds: number
}

/** Runs `work` and answers what it has cost these processes, which live through it, in CPU time and instructions. */
export async function costOf(pids: readonly number[], work: () => Promise<unknown>): Promise<Cost> {
  const counter = await InstructionCounter.attach(pids)
  const before = await cpuOf(pids)
  const began = performance.now()
  await work()
  const seconds = (performance.now() - began) / 1000
  const cpuMs = (await cpuOf(pids)) - before
  return { cpuMs, instructions: await counter.end(), seconds }
}

/** CPU milliseconds that these processes have used so far: exact where the kernel says so, else in ticks of 10 ms. */
export async function cpuOf(pids: readonly number[]): Promise<number> {
  const each = await Promise.all(pids.map(async (pid) => (await scheduledMs(pid)) ?? (await cpuSeconds(pid)) * 1000))
  return each.reduce((sum, ms) => sum + ms, 0)
}

/** CPU milliseconds of this process's children that have ended. */
export async function cpuOfEndedChildren(): Promise<number> {
  const text = await readFile('/proc/self/stat', 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[13]) + Number(fields[14])) * 10
}

/** The scheduler counts in nanoseconds, by thread. A thread that has ended is missing, so ticks decide when one has. */
async function scheduledMs(pid: number): Promise<number | undefined> {
  try {
    const threads = await readdir(`/proc/${pid}/task`)
    const texts = await Promise.all(threads.map((id) => readFile(`/proc/${pid}/task/${id}/schedstat`, 'utf8')))
    return texts.reduce((sum, text) => sum + Number(text.split(' ')[0]) / 1e6, 0)
  } catch {
    return undefined // a kernel without these counts, or a thread that ended meanwhile
  }
}

/** `perf stat` on living processes. */
class InstructionCounter {
  readonly #perf: ChildProcess | undefined
  #output = ''

  static async attach(pids: readonly number[]): Promise<InstructionCounter> {
    const perf = spawn('perf', ['stat', '-x', ',', '-e', 'instructions:u', '-p', pids.join(',')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const isThere = await Promise.race([
      once(perf, 'spawn').then(() => true),
      once(perf, 'error').then(() => false), // perf is not installed
    ])
    return new InstructionCounter(isThere ? perf : undefined)
  }

  private constructor(perf: ChildProcess | undefined) {
    this.#perf = perf
    perf?.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#output += text
    })
  }

  async end(): Promise<number | null> {
    if (this.#perf === undefined) return null
    if (this.#perf.exitCode === null) {
      const closed = once(this.#perf, 'close')
      this.#perf.kill('SIGINT')
      await closed
    }
    const counts = this.#output.split('\n').filter((line) => line.includes('instructions'))
    const [first] = (counts.at(-1) ?? '').split(',')
    const count = Number(first)
    return first === undefined || first === '' || !Number.isFinite(count) ? null : count
  }
}
