import type { RuntimeReport } from '../../shared/protocol/node.ts'
import type { RuntimeName } from '../../shared/protocol/server-spec.ts'
import { AgentFailure } from '../failure.ts'
import type { Runtime } from './runtime.ts'

/** The runtimes of this agent, by their names. */
export class Runtimes {
  readonly #runtimes: ReadonlyMap<RuntimeName, Runtime>

  constructor(runtimes: readonly Runtime[]) {
    this.#runtimes = new Map(runtimes.map((runtime) => [runtime.name, runtime]))
  }

  get names(): readonly RuntimeName[] {
    return [...this.#runtimes.keys()]
  }

  /** The runtime of that name; throws UNSUPPORTED for one that this agent does not have. */
  of(name: RuntimeName): Runtime {
    const runtime = this.#runtimes.get(name)
    if (runtime === undefined) throw new AgentFailure('UNSUPPORTED', `This node does not offer the runtime ${name}`)
    return runtime
  }

  /** What each of them can do on this machine now. */
  async reports(): Promise<RuntimeReport[]> {
    return await Promise.all([...this.#runtimes.values()].map((runtime) => runtime.probe()))
  }
}
