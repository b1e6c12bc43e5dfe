import type { Clock } from '../../shared/kernel/time.ts'
import type { StopSignal, TerminalKey } from '../../shared/protocol/server-spec.ts'
import { AgentFailure } from '../failure.ts'
import type { HeldRun, HolderRecord } from '../holder/holder-files.ts'
import type { ControlClient } from './control-client.ts'
import { ContainerNetwork } from './docker/container-network.ts'
import type { ProcessTable } from './process-table.ts'
import { resizeRun } from './resize-run.ts'
import { RunSockets } from './run-sockets.ts'
import { StatsMeter } from './run-stats.ts'
import type { Run, RunExit, RunPlan, RunRecord, RunStats } from './runtime.ts'
import type { OpenSocket, SocketTable } from './sockets.ts'

const RETRY_MS = 1000
const ORDER_ATTEMPTS = 50
const ORDER_PAUSE_MS = 100

/** What a run needs of the runtime. */
export interface RunKeeper {
  readonly clock: Clock
  /** Connects again after the holder went away, with a new holder where needed, or finds the exit. */
  readonly again: () => Promise<ControlClient | RunExit>
  readonly sockets: SocketTable
  readonly processes: ProcessTable
}

/** A run that a holder keeps; a holder that is killed is replaced without the program noticing. */
export class RunHandle implements Run {
  readonly record: RunRecord
  readonly exited: Promise<RunExit>
  private client: ControlClient
  private exit: RunExit | undefined
  private pidChanged: () => void = () => undefined
  private readonly keeper: RunKeeper
  private readonly meter: StatsMeter
  private readonly sockets: RunSockets
  private readonly network: ContainerNetwork | undefined
  private readonly held: HeldRun

  constructor(client: ControlClient, record: HolderRecord, keeper: RunKeeper) {
    const { kind, launchId, pid, startedAtMs, firstSeq } = record
    this.record = { kind, launchId, pid, startedAtMs, firstSeq }
    this.client = client
    this.keeper = keeper
    this.held = record.run
    const scope = { launchId, pid, start: record.start, isolation: record.run.isolation }
    this.meter = new StatsMeter(scope, keeper)
    this.sockets = new RunSockets(scope, keeper)
    const { container } = record.run
    this.network = container?.ownNetwork === true ? new ContainerNetwork(pid, container.published) : undefined
    this.exited = this.follow()
  }

  get pid(): number | null {
    return this.exit === undefined ? this.client.pid : null
  }

  get hasOwnNetwork(): boolean {
    return this.network !== undefined
  }

  onPid(changed: () => void): void {
    this.pidChanged = changed
    this.client.onPid(changed)
  }

  async input(line: string): Promise<void> {
    this.refuseWhenOver()
    // A line feed within would become a second line that nobody has typed.
    if (/[\r\n]/.test(line)) throw new AgentFailure('BAD_REQUEST', 'A console line has no line break in it')
    await this.client.ask({ op: 'input', line })
  }

  async signal(name: StopSignal, key?: TerminalKey): Promise<void> {
    await this.order({ op: 'signal', name, ...(key === undefined ? {} : { key }) })
  }

  async expectExit(withinMs?: number): Promise<void> {
    await this.order(withinMs === undefined ? { op: 'expect' } : { op: 'expect', withinMs })
  }

  async listening(address?: { readonly ip: string; readonly port: number }): Promise<readonly OpenSocket[]> {
    this.refuseWhenOver()
    if (this.network !== undefined) return await this.network.listening(address)
    return address === undefined ? await this.sockets.all() : await this.sockets.at(address)
  }

  async stats(): Promise<RunStats> {
    this.refuseWhenOver()
    const stats = this.meter.measure()
    return this.network === undefined ? stats : { ...stats, ...(await this.network.traffic()) }
  }

  async resize(limits: RunPlan['limits']): Promise<string | null> {
    this.refuseWhenOver()
    return await resizeRun(this.held, limits)
  }

  /** An order that may be given twice: when the holder goes away meanwhile, its successor gets it. */
  private async order(question: Parameters<ControlClient['ask']>[0]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      this.refuseWhenOver()
      try {
        return await this.client.ask(question)
      } catch (error) {
        if (!(error instanceof AgentFailure) || error.code !== 'INTERRUPTED' || attempt === ORDER_ATTEMPTS) throw error
        await this.keeper.clock.sleep(ORDER_PAUSE_MS)
      }
    }
  }

  private refuseWhenOver(): void {
    if (this.exit !== undefined) throw new AgentFailure('NOT_RUNNING', 'The program has ended')
  }

  private async follow(): Promise<RunExit> {
    while (true) {
      const exit = await this.client.ended
      this.client.close()
      const found = exit ?? (await this.reconnect())
      if ('launchId' in found) {
        this.exit = found
        return found
      }
      const { pid } = this.client
      this.client = found
      found.onPid(this.pidChanged)
      if (found.pid !== pid) this.pidChanged()
    }
  }

  private async reconnect(): Promise<ControlClient | RunExit> {
    while (true) {
      try {
        return await this.keeper.again()
      } catch {
        // The program runs on without a holder and its output waits in the pipe; nothing is lost by trying again.
        await this.keeper.clock.sleep(RETRY_MS)
      }
    }
  }
}

/** A run that had ended when it was asked for. */
export class EndedRun implements Run {
  readonly record: RunRecord
  readonly pid = null
  readonly hasOwnNetwork = false
  readonly exited: Promise<RunExit>

  constructor(record: RunRecord, exit: RunExit) {
    this.record = record
    this.exited = Promise.resolve(exit)
  }

  onPid(): void {} // there is none any more

  input(): Promise<void> {
    return over()
  }

  signal(): Promise<void> {
    return over()
  }

  expectExit(): Promise<void> {
    return over()
  }

  listening(): Promise<readonly OpenSocket[]> {
    return over()
  }

  stats(): Promise<RunStats> {
    return over()
  }

  resize(): Promise<null> {
    return over()
  }
}

function over(): Promise<never> {
  return Promise.reject(new AgentFailure('NOT_RUNNING', 'The program has ended'))
}
