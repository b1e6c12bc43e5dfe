import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DIST } from '../run-panel.ts'
import type { SourceKeys } from './keys.ts'
import type { Faults } from './options.ts'
import type { LoggedRequest } from './request-log.ts'
import type { SourceManifest, SourceSimulator } from './source-simulator.ts'

/** A source in another process. */
export interface SourceProcess {
  readonly url: string
  readonly keys: SourceKeys
  /** Of the process that is it now. */
  readonly pid: number
  manifest(): Promise<SourceManifest>
  state(): Promise<ReturnType<SourceSimulator['state']>>
  log(): Promise<LoggedRequest[]>
  setFaults(faults: Partial<Faults>): Promise<void>
  /** What is not as it was found, a line each. */
  changes(): Promise<string[]>
  passWeek(): Promise<void>
  /** Kills it and starts it again; with `--folder` it is the same, at the same address. */
  restart(): Promise<void>
  close(): Promise<void>
}

/** Starts one by its flags, where what it does must not slow down what the test measures. */
export async function startSourceProcess(flags: string): Promise<SourceProcess> {
  let running = await spawned(flags)
  const ask = async (path: string, body?: unknown): Promise<unknown> => {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    return await (await fetch(`${running.url}/__sim/${path}`, init)).json()
  }
  return {
    get url() {
      return running.url
    },
    keys: running.keys,
    get pid() {
      return running.child.pid ?? 0
    },
    manifest: async () => (await ask('manifest')) as SourceManifest,
    state: async () => (await ask('state')) as ReturnType<SourceSimulator['state']>,
    log: async () => (await ask('log')) as LoggedRequest[],
    setFaults: async (faults) => void (await ask('faults', faults)),
    changes: async () => (await ask('changes')) as string[],
    passWeek: async () => void (await ask('week', {})),
    restart: async () => {
      running.child.kill('SIGKILL')
      await running.ended
      running = await spawned(flags)
    },
    close: async () => {
      running.child.stdin.end()
      await running.ended
    },
  }
}

async function spawned(flags: string) {
  const child = spawn(process.execPath, [join(DIST, 'bin', 'source-program.js'), ...flags.split(' ')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), ended])) as [unknown]
  if (typeof line !== 'string') throw new Error(`the source ended with ${String(line)}`)
  const { url, keys } = JSON.parse(line) as Pick<SourceProcess, 'url' | 'keys'>
  return { child, ended, url, keys }
}
