import { rmSync } from 'node:fs'
import { limitsMemory, oomKills, removeCgroup } from '../cgroup.ts'
import { type Child, type ChildDeps, type ChildEnd, type ChildKind, InputFailure } from '../child.ts'
import type { HolderRecord } from '../holder-files.ts'
import { watchMemory } from '../memory-watchdog.ts'
import { isEnclosed, killRun, livingPids, type RunScope, scopeOf, signalRun } from '../run-processes.ts'
import { begin } from './begin.ts'
import { childEnded, Wake } from './child-end.ts'
import { FifoOutput, holdOpen } from './fifo-output.ts'
import { endUnbegun, hasBegun } from './interrupted-start.ts'
import { makeFifos } from './launcher.ts'
import { Stdin, StdinFull } from './stdin.ts'

const REMOVE_ATTEMPTS = 50
const REMOVE_PAUSE_MS = 20

/** A program as processes of this machine, with FIFOs for what it reads and writes, so that it outlives its holder. */
export const processKind: ChildKind = {
  async start(file, firstSeq, deps) {
    const { paths, clock } = deps
    makeFifos(paths, file.run.isolation.uid)
    // Read before the child begins, so that its first line is not late and its last words are not lost.
    const release = holdOpen([paths.stdout, paths.stderr])
    const outputs = openOutputs(deps)
    try {
      const { record, wake } = await begin(paths, file, { clock, firstSeq })
      return { child: new ProcessChild(deps, { record, wake, outputs }), record }
    } catch (error) {
      for (const output of outputs) output.finish()
      throw error
    } finally {
      release()
    }
  },

  async resume(record, deps) {
    return new ProcessChild(deps, { record, wake: new Wake(deps.clock), outputs: openOutputs(deps) })
  },

  hasBegun,
  endUnbegun,
}

function openOutputs({ paths, sink }: ChildDeps): FifoOutput[] {
  return [new FifoOutput(paths.stdout, 'stdout', sink), new FifoOutput(paths.stderr, 'stderr', sink)]
}

/** What a child that is held consists of. */
interface Held {
  readonly record: HolderRecord
  readonly wake: Wake
  readonly outputs: readonly FifoOutput[]
}

class ProcessChild implements Child {
  readonly #deps: ChildDeps
  readonly #held: Held
  readonly #scope: RunScope
  readonly #stdin: Stdin

  constructor(deps: ChildDeps, held: Held) {
    this.#deps = deps
    this.#held = held
    this.#scope = scopeOf(held.record)
    this.#stdin = new Stdin(deps.paths.stdin, deps.clock)
  }

  get isEnclosed(): boolean {
    return isEnclosed(this.#scope)
  }

  ended(): Promise<ChildEnd> {
    return childEnded(this.#held.record, this.#deps.paths, this.#held.wake)
  }

  living(): readonly number[] {
    return livingPids(this.#scope)
  }

  async input(line: string, written: () => void): Promise<void> {
    try {
      await this.#stdin.write(line, written)
    } catch (error) {
      if (this.#stdin.closed) throw new InputFailure('The program has ended', true)
      throw error instanceof StdinFull ? new InputFailure(error.message, false) : error
    }
  }

  async signal(name: NodeJS.Signals): Promise<boolean> {
    return signalRun(this.#scope, name)
  }

  kill(): Promise<number> {
    return killRun(this.#scope, this.#deps.clock)
  }

  async memoryExceeded(signal: AbortSignal): Promise<void> {
    const { limits, isolation } = this.#held.record.run
    const isGuarded = limits.memoryMb <= 0 || limitsMemory(isolation.cgroup)
    if (isGuarded) return await new Promise<never>(() => undefined)
    await watchMemory(this.#scope, limits.memoryMb, { clock: this.#deps.clock, signal })
  }

  async finish(): Promise<void> {
    for (const output of this.#held.outputs) output.finish()
    this.#stdin.close()
  }

  oomKills(): number {
    const { cgroup } = this.#scope.isolation
    return cgroup === null ? 0 : oomKills(cgroup)
  }

  async remove(): Promise<void> {
    const { cgroup } = this.#scope.isolation
    for (let attempt = 0; cgroup !== null && !removeCgroup(cgroup) && attempt < REMOVE_ATTEMPTS; attempt++) {
      await this.#deps.clock.sleep(REMOVE_PAUSE_MS)
    }
    rmSync(this.#deps.paths.io, { recursive: true, force: true })
  }
}
