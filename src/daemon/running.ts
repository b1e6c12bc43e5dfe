import { join, resolve } from 'node:path'
import { PanelError } from '../shared/kernel/errors.ts'
import { systemClock } from '../shared/kernel/time.ts'
import { defaultDataDir } from './config/config.ts'
import { findHolder } from './start/data-folder.ts'

/** The daemon that works on a data folder. */
export interface RunningDaemon {
  readonly pid: number
  readonly url: string | undefined
  readonly startedAt: string | undefined
  readonly dataDir: string
  /** Whether `pid` is a process of this machine and this container. */
  readonly isHere: boolean
  readonly host: string
}

const POLL_MS = 100

/** The data folder that is meant (default: the usual one). */
export function dataFolder(options: { dataDir: string | undefined }): string {
  return resolve(options.dataDir ?? defaultDataDir())
}

/** The daemon of this data folder (default: the usual one), `undefined` when none runs. */
export async function findDaemon(options: { dataDir: string | undefined }): Promise<RunningDaemon | undefined> {
  const dataDir = dataFolder(options)
  const holder = await findHolder(dataDir)
  if (holder === undefined) return undefined
  const { pid, url, startedAt, isHere, host } = holder
  return { pid, url, startedAt, dataDir, isHere, host }
}

/** Where in this data folder (default: the usual one) the agent within the daemon has its own. */
export function agentDataDir(options: { dataDir: string | undefined }): string {
  return join(dataFolder(options), 'agent')
}

/** A daemon that was asked to stop; `gone`: within the time. */
export interface StoppedDaemon {
  readonly daemon: RunningDaemon
  readonly gone: boolean
}

/** Asks the daemon to stop and resolves when it is gone or `timeoutMs` have passed; games run on. `undefined`: none ran. */
export async function stopDaemon(options: {
  dataDir: string | undefined
  timeoutMs: number
}): Promise<StoppedDaemon | undefined> {
  const daemon = await findDaemon(options)
  if (daemon === undefined) return undefined
  if (!daemon.isHere) {
    // The number is that of quite another process here.
    const what = `The daemon of ${daemon.dataDir} is process ${daemon.pid} on ${daemon.host}, in another container or on another machine`
    throw new PanelError('CONFLICT', `${what}: stop it there, by its container or service`)
  }
  process.kill(daemon.pid, 'SIGTERM')
  const deadline = systemClock.monotonicMs() + options.timeoutMs
  while ((await findDaemon(options))?.pid === daemon.pid) {
    if (systemClock.monotonicMs() > deadline) return { daemon, gone: false }
    await systemClock.sleep(POLL_MS)
  }
  return { daemon, gone: true }
}
