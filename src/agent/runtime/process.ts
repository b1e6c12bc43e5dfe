import { mkdir, rm } from 'node:fs/promises'
import { release } from 'node:os'
import { newIdSuffix } from '../../shared/kernel/ids.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { LineStream } from '../../shared/protocol/console.ts'
import type { RuntimeReport } from '../../shared/protocol/node.ts'
import { AgentFailure } from '../failure.ts'
import { type HeldRun, type HolderRecord, holderPaths, type LaunchFile } from '../holder/holder-files.ts'
import { readOwnJson, writeOwnJson } from '../holder/json-file.ts'
import { PRIVATE_HOME } from '../holder/launcher.ts'
import { RUN_VARIABLE } from '../holder/run-processes.ts'
import { cgroupOfRun } from './cgroup-places.ts'
import { ControlClient } from './control-client.ts'
import { HolderClient } from './holder-client.ts'
import { type Machine, othersCanReach, studyMachine } from './machine.ts'
import { giveTo } from './ownership.ts'
import { EndedRun, ProcessRun } from './process-run.ts'
import type { Launch, Run, RunExit, Runtime, ServerPlace } from './runtime.ts'
import { ServerUsers } from './server-users.ts'
import { socketPath } from './socket-place.ts'
import { SocketTable } from './sockets.ts'

/** What the process runtime is made with. */
export interface ProcessRuntimeOptions {
  readonly dataDir: string
  /** The program and its first arguments that start a holder; the server's state folder is added. */
  readonly execArgv: readonly [string, ...string[]]
  readonly clock: Clock
}

/** Runs servers as processes of this machine, each under a holder that outlives the agent. */
export class ProcessRuntime implements Runtime {
  readonly name = 'process'
  private readonly options: ProcessRuntimeOptions
  private readonly users: ServerUsers
  private readonly holders: HolderClient
  private readonly sockets: SocketTable
  private studied: Promise<Machine> | undefined

  constructor(options: ProcessRuntimeOptions) {
    this.options = options
    this.users = new ServerUsers(options.dataDir)
    this.holders = new HolderClient(options)
    this.sockets = new SocketTable(options.clock)
  }

  async probe(): Promise<RuntimeReport> {
    const { missing, users, mounts, locks, cgroups } = await this.machine()
    const isolation = users ? (mounts ? 'own user, private mounts' : 'own user') : 'none'
    const limits = cgroups === null ? 'watchdog' : `cgroup v${cgroups.version}`
    return {
      name: 'process',
      version: release().slice(0, 64),
      ok: missing === null,
      reason: missing === null ? null : `The program ${missing} (of util-linux or coreutils) is missing`,
      capabilities: [
        `isolation: ${isolation}`,
        `limits: ${limits}`,
        ...(users ? [`user namespaces: ${locks ? 'off' : 'as the machine allows'}`] : []),
      ],
    }
  }

  async start(place: ServerPlace, launch: Launch): Promise<Run> {
    const same = await this.sameLaunch(place, launch.launchId)
    if (same !== undefined) return same
    const before = await this.adopt(place)
    if (before !== undefined && 'run' in before) {
      throw new AgentFailure('CONFLICT_STATE', 'Another run of this server is alive')
    }
    if (before !== undefined) await this.forget(place, before.exit.launchId)
    const paths = holderPaths(place.state)
    await mkdir(place.state, { recursive: true, mode: 0o700 })
    await rm(paths.failure, { force: true })
    const { run, home } = await this.plan(place, launch)
    const env: Record<string, string> = { ...launch.env, HOME: home, [RUN_VARIABLE]: launch.launchId }
    if (env['MNT_SERVER'] !== undefined) env['MNT_SERVER'] = home
    await writeOwnJson<LaunchFile>(paths.launch, { run, argv: launch.argv, env, files: place.files })
    const begun = await this.holders.begin(place, launch.launchId, run.socket)
    if (begun instanceof ControlClient) return await this.runOf(place, begun)
    return new EndedRun(await recordOf(place), begun)
  }

  async adopt(place: ServerPlace): Promise<{ run: Run } | { exit: RunExit } | undefined> {
    const found = await this.holders.find(place)
    if (found === undefined) return undefined
    if (!(found instanceof ControlClient)) return { exit: found }
    return { run: await this.runOf(place, found) }
  }

  async forget(place: ServerPlace, launchId: string): Promise<void> {
    await this.holders.forget(place, launchId)
  }

  async note(place: ServerPlace, text: string, stream: LineStream = 'system'): Promise<void> {
    await this.holders.note(place, text, stream)
  }

  async prepare(place: ServerPlace): Promise<void> {
    await mkdir(place.files, { recursive: true, mode: 0o700 })
    const uid = await this.uidFor(place)
    if (uid !== null) await giveTo(place.files, uid)
  }

  /** A start that is told twice is one start. */
  private async sameLaunch(place: ServerPlace, launchId: string): Promise<Run | undefined> {
    const record = await readOwnJson<HolderRecord>(holderPaths(place.state).record)
    if (record?.launchId !== launchId) return undefined
    if (record.forgotten) throw new AgentFailure('CONFLICT_STATE', 'This run has ended and is forgotten')
    const found = await this.adopt(place)
    if (found === undefined) return undefined
    return 'run' in found ? found.run : new EndedRun(record, found.exit)
  }

  private async runOf(place: ServerPlace, client: ControlClient): Promise<Run> {
    const record = await recordOf(place)
    const again = async (): Promise<ControlClient | RunExit> => {
      const found = await this.holders.find(place)
      if (found !== undefined) return found
      throw new AgentFailure('INTERNAL', 'The run has left no trace')
    }
    return new ProcessRun(client, record, { clock: this.options.clock, again, sockets: this.sockets })
  }

  private async plan(place: ServerPlace, launch: Launch): Promise<{ run: HeldRun; home: string }> {
    const machine = await this.machine()
    if (machine.missing !== null) throw new AgentFailure('UNSUPPORTED', `The program ${machine.missing} is missing`)
    const uid = await this.uidFor(place)
    const mounts = uid !== null && machine.mounts
    const run: HeldRun = {
      serverId: place.serverId,
      kind: launch.kind,
      launchId: launch.launchId,
      socket: await socketPath(this.options.dataDir, place.serverId),
      logMb: launch.logMb,
      newEpoch: newIdSuffix(this.options.clock),
      limits: launch.limits,
      ...(launch.masked === undefined ? {} : { masked: launch.masked }),
      isolation: {
        uid,
        mounts,
        locked: uid !== null && machine.locks && launch.allowUserNamespaces !== true,
        cgroup: cgroupOfRun(machine.cgroups, launch.launchId),
      },
    }
    return { run, home: mounts ? PRIVATE_HOME : place.files }
  }

  /** A server's own user, `null` where it has the agent's: as an ordinary user, or where its own could not reach its files. */
  private async uidFor(place: ServerPlace): Promise<number | null> {
    const machine = await this.machine()
    if (!machine.users || (!machine.mounts && !(await othersCanReach(place.files)))) return null
    return await this.users.uidOf(place.serverId)
  }

  private machine(): Promise<Machine> {
    this.studied ??= studyMachine()
    return this.studied
  }
}

async function recordOf(place: ServerPlace): Promise<HolderRecord> {
  const record = await readOwnJson<HolderRecord>(holderPaths(place.state).record)
  if (record === undefined) throw new AgentFailure('INTERNAL', 'The record of a run is missing')
  return record
}
