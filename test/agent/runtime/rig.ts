import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConsoleTail } from '../../../src/agent/console/log/console-tail.ts'
import { HeldRuns } from '../../../src/agent/runtime/held-runs.ts'
import { ProcessRuntime } from '../../../src/agent/runtime/process/process-runtime.ts'
import type { Run, RunPlan, ServerPlace } from '../../../src/agent/runtime/runtime.ts'
import { ServerUsers } from '../../../src/agent/runtime/server-users.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import type { ConsoleLine } from '../../../src/shared/protocol/console.ts'
import { betweenLooks } from '../../looks.ts'
import { DIST } from '../../run-panel.ts'

export const LIMITS = { memoryMb: 512, swapMb: 0, cpuCores: 2, pids: 200 }

/** One data folder with a runtime; everything that was started in it is ended by {@link Rig.close}. */
export class Rig {
  readonly dataDir: string
  readonly command: readonly [string, ...string[]]
  readonly runs: HeldRuns
  readonly runtime: ProcessRuntime

  constructor(command: readonly [string, ...string[]] = HOLDER, name = '') {
    this.dataDir = mkdtempSync(join(tmpdir(), `panel-runtime-${name}`))
    this.command = command
    this.runs = new HeldRuns({ execArgv: command, clock: systemClock })
    const users = new ServerUsers(this.dataDir)
    this.runtime = new ProcessRuntime({ dataDir: this.dataDir, runs: this.runs, users, clock: systemClock })
  }

  place(serverId: string): ServerPlace {
    return { serverId, files: join(this.dataDir, 'servers', serverId), state: join(this.dataDir, 'state', serverId) }
  }

  async start(place: ServerPlace, argv: RunPlan['argv'], more: Partial<RunPlan> = {}): Promise<Run> {
    await this.runtime.prepare(place)
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin' }
    const launchId = globalThis.crypto.randomUUID()
    const plan: RunPlan = { kind: 'game', launchId, argv, env, image: null, ports: [], limits: LIMITS, logMb: 64 }
    return this.runtime.start(place, { ...plan, ...more })
  }

  /** Ends and forgets whatever lives in the data folder, then removes it. */
  async close(): Promise<void> {
    const state = join(this.dataDir, 'state')
    for (const serverId of existsSync(state) ? readdirSync(state) : []) {
      const place = this.place(serverId)
      const found = await this.runs.adopt(place)
      if (found === undefined) continue
      if ('run' in found) await found.run.signal('SIGKILL').catch(() => undefined)
      const exit = 'run' in found ? await found.run.exited : found.exit
      await this.runs.forget(place, exit.launchId)
    }
    // Holders tidy up at the same time, and take away what is to be removed.
    await until('the folder to be gone', () => {
      try {
        rmSync(this.dataDir, { recursive: true, force: true })
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
      }
      return !existsSync(this.dataDir)
    })
  }

  async holderPid(place: ServerPlace): Promise<number> {
    return await holderPid(place)
  }
}

/** The process that holds the server. */
export async function holderPid(place: ServerPlace): Promise<number> {
  return await until('a holder', () => {
    for (const name of readdirSync('/proc')) {
      if (/^\d+$/.test(name) && isHolder(Number(name), place.state)) return Number(name)
    }
    return undefined
  })
}

/** The command that starts a holder, of the program that was compiled for the tests. */
export const HOLDER: readonly [string, ...string[]] = [process.execPath, join(DIST, 'bin', 'panel.js'), '__holder']

/** All lines of a server's log. */
export async function allLines(place: ServerPlace): Promise<ConsoleLine[]> {
  const log = new ConsoleTail(join(place.state, 'console'))
  const lines: ConsoleLine[] = []
  for (let after = (await log.bounds()).first - 1; ; ) {
    const some = await log.after(after, { lines: 5000, bytes: 4 * 1024 * 1024 })
    lines.push(...some)
    const last = some.at(-1)
    if (last === undefined) return lines
    after = last[0]
  }
}

/** The texts of one stream. */
export async function texts(place: ServerPlace, stream = 'stdout'): Promise<string[]> {
  return (await allLines(place)).filter((line) => line[2] === stream).map((line) => line[3])
}

/** Waits for a value that is not `undefined` or `false`. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
): Promise<T> {
  const start = performance.now()
  while (performance.now() < start + 15_000) {
    const value = await look()
    if (value !== undefined && value !== false) return value
    await betweenLooks(start)
  }
  throw new Error(`${what} did not come`)
}

export function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false // there is no such process
  }
}

function isHolder(pid: number, state: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(state)
  } catch {
    return false // it ended meanwhile
  }
}

/** Runs a program text of Node in a process of its own, as another agent would; resolves when it has printed a line. */
export async function otherProcess(
  dir: string,
  program: string,
): Promise<{ pid: number; line: string; kill(): Promise<void> }> {
  mkdirSync(dir, { recursive: true })
  const file = join(dir, 'agent.mjs')
  writeFileSync(file, program)
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString().trim()))
    child.once('exit', (code) => reject(new Error(`it ended with ${code} before it said anything`)))
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const kill = (): Promise<void> => {
    child.kill('SIGKILL')
    return ended
  }
  return { pid: child.pid ?? 0, line, kill }
}

export const isRoot = process.getuid?.() === 0

/** Runs a program as an ordinary user and gives back what it printed. */
export function asNobody(args: readonly string[]): string {
  return execFileSync('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', ...args], { encoding: 'utf8' })
}
