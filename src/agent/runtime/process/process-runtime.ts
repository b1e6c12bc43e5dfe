import { mkdir } from 'node:fs/promises'
import { release } from 'node:os'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { ServerMount } from '../../../shared/protocol/mounts.ts'
import type { RuntimeReport } from '../../../shared/protocol/node.ts'
import { AgentFailure } from '../../failure.ts'
import type { Isolation, LaunchFile } from '../../holder/holder-files.ts'
import { RUN_VARIABLE } from '../../holder/machine-processes.ts'
import { PRIVATE_HOME } from '../../holder/process/launcher.ts'
import { hasTerminals } from '../../holder/process/terminal.ts'
import { refuseCpuSet } from '../cpu-set.ts'
import { heldRun } from '../held-run.ts'
import type { HeldRuns } from '../held-runs.ts'
import { giveTo } from '../ownership.ts'
import type { Run, RunNetwork, RunPlan, Runtime, ServerPlace } from '../runtime.ts'
import type { ServerUsers } from '../server-users.ts'
import { cgroupOfRun } from './cgroup-places.ts'
import { type Machine, othersCanReach, studyMachine } from './machine.ts'

/** What the process runtime is made with. */
export interface ProcessRuntimeOptions {
  readonly dataDir: string
  readonly runs: HeldRuns
  readonly users: ServerUsers
  readonly clock: Clock
}

/** Runs servers as processes of this machine, each under a holder that outlives the agent. */
export class ProcessRuntime implements Runtime {
  readonly name = 'process' as const
  readonly #options: ProcessRuntimeOptions
  #studied: Promise<Machine> | undefined

  constructor(options: ProcessRuntimeOptions) {
    this.#options = options
  }

  async probe(): Promise<RuntimeReport> {
    const machine = await this.#machine()
    const { missing, users, mounts, locks, cgroups } = machine
    return {
      name: 'process',
      version: release().slice(0, 64),
      ok: missing === null,
      reason: missing === null ? null : `The program ${missing} (of util-linux or coreutils) is missing`,
      isolation: users ? 'user' : 'none',
      mounts: mounts ? 'private' : 'shared',
      limits: cgroups === null ? 'watchdog' : cgroups.version === 2 ? 'cgroup-v2' : 'cgroup-v1',
      userNamespaces: users && locks ? 'off' : 'allowed',
      cpuSets: machine.cpuSets,
      ioWeights: machine.ioWeights,
      terminals: hasTerminals(),
      capabilities: inWords(machine),
    }
  }

  /** The mount point of its private folder, or the folder itself where there are no private mounts. */
  async home(place: ServerPlace): Promise<string> {
    return (await this.#machine()).mounts ? PRIVATE_HOME : place.files
  }

  async prepare(place: ServerPlace): Promise<void> {
    await mkdir(place.files, { recursive: true, mode: 0o700 })
    const uid = await this.#uidFor(place)
    if (uid !== null) await giveTo(place.files, uid)
  }

  /** That of the machine. */
  async network(): Promise<RunNetwork> {
    return { listenIp: null, machineIp: '127.0.0.1', isOwn: false }
  }

  async renew(): Promise<void> {
    throw new AgentFailure('BAD_REQUEST', 'The server runs as a process: there is no container to be made anew')
  }

  async start(place: ServerPlace, plan: RunPlan): Promise<Run> {
    const { cpuSets, ioWeights } = await this.#machine()
    await refuseCpuSet(plan.limits.cpuSet)
    const without = [
      ...(plan.limits.cpuSet === undefined || cpuSets ? [] : ['keep it to its processors']),
      ...(plan.limits.ioWeight === undefined || ioWeights ? [] : ['give it its share of disk time']),
    ]
    for (const what of without)
      await this.#options.runs.note(place, `This node cannot ${what}: its kernel does not allow it`)
    return await this.#options.runs.start(place, plan.launchId, () => this.#launchFile(place, plan))
  }

  /** Processes live and end with the holder of their run. */
  async remains(): Promise<ReadonlySet<string>> {
    return new Set()
  }

  async discard(): Promise<void> {} // see remains()

  async #launchFile(place: ServerPlace, plan: RunPlan): Promise<LaunchFile> {
    const { dataDir, clock } = this.#options
    const isolation = await this.#isolation(place, plan)
    const mounts = plan.mounts ?? []
    refuseMounts(mounts, isolation)
    const home = isolation.mounts ? PRIVATE_HOME : place.files
    const env: Record<string, string> = { ...plan.env, HOME: home, [RUN_VARIABLE]: plan.launchId }
    if (env['MNT_SERVER'] !== undefined) env['MNT_SERVER'] = home
    const run = await heldRun(place, plan, { runtime: this.name, dataDir, clock, isolation })
    return { run, argv: plan.argv, env, files: place.files, ...(mounts.length === 0 ? {} : { mounts }) }
  }

  async #isolation(place: ServerPlace, plan: RunPlan): Promise<Isolation> {
    const machine = await this.#machine()
    if (machine.missing !== null) throw new AgentFailure('UNSUPPORTED', `The program ${machine.missing} is missing`)
    const uid = await this.#uidFor(place)
    return {
      uid,
      mounts: uid !== null && machine.mounts,
      locked: uid !== null && machine.locks && plan.allowUserNamespaces !== true,
      cgroup: cgroupOfRun(machine.cgroups, plan.launchId, plan.limits),
    }
  }

  /** A server's own user, `null` where it has the agent's: as an ordinary user, or where its own could not reach its files. */
  async #uidFor(place: ServerPlace): Promise<number | null> {
    const machine = await this.#machine()
    if (!machine.users || (!machine.mounts && !(await othersCanReach(place.files)))) return null
    return await this.#options.users.uidOf(place.serverId)
  }

  #machine(): Promise<Machine> {
    this.#studied ??= studyMachine()
    return this.#studied
  }
}

/** A process has mounts where it has a mount namespace, and there in its own folder alone. */
function refuseMounts(mounts: readonly ServerMount[], isolation: Isolation): void {
  if (mounts.length > 0 && !isolation.mounts) {
    throw new AgentFailure(
      'UNSUPPORTED',
      'The server has mounts, and this node has no private mounts for processes: its agent must run as root, or the server in a container',
    )
  }
  for (const { target } of mounts) {
    if (target.startsWith('/')) {
      throw new AgentFailure(
        'UNSUPPORTED',
        `The mount at ${target} needs a container: for a process, mounts lie in the folder of the server (a relative target)`,
      )
    }
  }
}

/** The same for people, and for daemons of before that know no other. */
function inWords({ users, mounts, locks, cgroups, cpuSets, ioWeights }: Machine): string[] {
  const isolation = users ? (mounts ? 'own user, private mounts' : 'own user') : 'none'
  const limits = cgroups === null ? 'watchdog' : `cgroup v${cgroups.version}`
  return [
    `isolation: ${isolation}`,
    `limits: ${limits}`,
    ...(users ? [`user namespaces: ${locks ? 'off' : 'as the machine allows'}`] : []),
    // A watchdog holds neither.
    ...(cgroups === null ? [] : [`cpu sets: ${cpuSets ? 'yes' : 'no'}`, `I/O weights: ${ioWeights ? 'yes' : 'no'}`]),
  ]
}
