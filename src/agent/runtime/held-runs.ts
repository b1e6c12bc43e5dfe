import { mkdir, rm } from 'node:fs/promises'
import type { LineStream } from '../../shared/protocol/console.ts'
import { AgentFailure } from '../failure.ts'
import { type HolderRecord, holderPaths, type LaunchFile } from '../holder/holder-files.ts'
import { readOwnJson, writeOwnJson } from '../state/json-file.ts'
import { ControlClient } from './control-client.ts'
import { HolderClient, type HolderClientOptions } from './holder-client.ts'
import { ProcessTable } from './process-table.ts'
import { EndedRun, RunHandle } from './run-handle.ts'
import type { Run, RunExit, RunTable, ServerPlace } from './runtime.ts'
import { SocketTable } from './sockets.ts'

/** The runs that holders keep, each in the state folder of its server. */
export class HeldRuns implements RunTable {
  readonly #holders: HolderClient
  /** The open sockets of this machine. */
  readonly sockets: SocketTable
  readonly #processes: ProcessTable
  readonly #options: HolderClientOptions

  constructor(options: HolderClientOptions) {
    this.#options = options
    this.#holders = new HolderClient(options)
    this.sockets = new SocketTable(options.clock)
    this.#processes = new ProcessTable(options.clock)
  }

  /**
   * Starts the run of a launch file, which is made when there is no other run. A start that is asked for twice is one start.
   * Resolves when the program is alive or has already ended; throws CONFLICT_STATE while another run is alive.
   */
  async start(place: ServerPlace, launchId: string, file: () => Promise<LaunchFile>): Promise<Run> {
    const same = await this.#sameLaunch(place, launchId)
    if (same !== undefined) return same
    const before = await this.adopt(place)
    if (before !== undefined && 'run' in before) {
      throw new AgentFailure('CONFLICT_STATE', 'Another run of this server is alive')
    }
    if (before !== undefined) await this.forget(place, before.exit.launchId)
    const paths = holderPaths(place.state)
    await mkdir(place.state, { recursive: true, mode: 0o700 })
    await rm(paths.failure, { force: true })
    const launch = await file()
    await writeOwnJson<LaunchFile>(paths.launch, launch)
    const begun = await this.#holders.begin(place, launchId, launch.run.socket)
    if (begun instanceof ControlClient) return await this.#runOf(place, begun)
    return new EndedRun(await recordOf(place), begun)
  }

  async adopt(place: ServerPlace): Promise<{ run: Run } | { exit: RunExit } | undefined> {
    const found = await this.#holders.find(place)
    if (found === undefined) return undefined
    if (!(found instanceof ControlClient)) return { exit: found }
    return { run: await this.#runOf(place, found) }
  }

  async forget(place: ServerPlace, launchId: string): Promise<void> {
    await this.#holders.forget(place, launchId)
  }

  async note(place: ServerPlace, text: string, stream: LineStream = 'system'): Promise<void> {
    await this.#holders.note(place, text, stream)
  }

  async #sameLaunch(place: ServerPlace, launchId: string): Promise<Run | undefined> {
    const record = await readOwnJson<HolderRecord>(holderPaths(place.state).record)
    if (record?.launchId !== launchId) return undefined
    if (record.forgotten) throw new AgentFailure('CONFLICT_STATE', 'This run has ended and is forgotten')
    const found = await this.adopt(place)
    if (found === undefined) return undefined
    return 'run' in found ? found.run : new EndedRun(record, found.exit)
  }

  async #runOf(place: ServerPlace, client: ControlClient): Promise<Run> {
    const record = await recordOf(place)
    const again = async (): Promise<ControlClient | RunExit> => {
      const found = await this.#holders.find(place)
      if (found !== undefined) return found
      throw new AgentFailure('INTERNAL', 'The run has left no trace')
    }
    const shared = { sockets: this.sockets, processes: this.#processes }
    return new RunHandle(client, record, { clock: this.#options.clock, again, ...shared })
  }
}

async function recordOf(place: ServerPlace): Promise<HolderRecord> {
  const record = await readOwnJson<HolderRecord>(holderPaths(place.state).record)
  if (record === undefined) throw new AgentFailure('INTERNAL', 'The record of a run is missing')
  return record
}
