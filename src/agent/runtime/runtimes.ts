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

  /** The servers of which any of them has something left outside their folders. */
  async remains(): Promise<Set<string>> {
    const found = await Promise.all([...this.#runtimes.values()].map((runtime) => runtime.remains()))
    return new Set(found.flatMap((ids) => [...ids]))
  }

  /** Removes what any of them has left of a server outside its folders. Rejects when that cannot be done now. */
  async discard(serverId: string): Promise<void> {
    await Promise.all([...this.#runtimes.values()].map((runtime) => runtime.discard(serverId)))
  }

  /** What each of them can do on this machine now. */
  async reports(): Promise<RuntimeReport[]> {
    return await Promise.all([...this.#runtimes.values()].map((runtime) => runtime.probe()))
  }
}
