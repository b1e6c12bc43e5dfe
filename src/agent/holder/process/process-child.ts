import { closeSync } from 'node:fs'
import type { TerminalKey } from '../../../shared/protocol/server-spec.ts'
import { limitsMemory, oomKills, removeCgroup } from '../cgroup.ts'
import { type Child, type ChildDeps, type ChildEnd, type ChildKind, InputFailure, KEY_BYTES } from '../child.ts'
import type { HeldRun, HolderPaths, HolderRecord, LaunchFile } from '../holder-files.ts'
import { watchMemory } from '../memory-watchdog.ts'
import { removeFolder } from '../own-files.ts'
import { isEnclosed, killRun, livingPids, type RunScope, scopeOf, signalRun } from '../run-processes.ts'
import { begin } from './begin.ts'
import { childEnded, Wake } from './child-end.ts'
import { FifoOutput, holdOpen } from './fifo-output.ts'
import { endUnbegun, hasBegun } from './interrupted-start.ts'
import { makeFifos } from './launcher.ts'
import { Stdin, StdinFull } from './stdin.ts'
import type { Terminal } from './terminal.ts'

const REMOVE_ATTEMPTS = 50
const REMOVE_PAUSE_MS = 20
const LAST_WORDS_MS = 5000

/** A program as processes of this machine, with FIFOs for what it reads and writes, so that it outlives its holder. */
export const processKind: ChildKind = {
  async start(file, firstSeq, deps) {
    const { paths, clock } = deps
    makeFifos(paths, file.run.isolation.uid)
    // Read before the child begins, so that its first line is not late and its last words are not lost.
    const release = holdOpen([paths.stdout, paths.stderr])
    const outputs = openOutputs(deps, file.run)
    let terminal: Terminal | undefined
    try {
      terminal = await terminalOf(file, paths)
      const { record, wake } = await begin(paths, file, { clock, firstSeq, terminal })
      return { child: new ProcessChild(deps, { record, wake, outputs }), record }
    } catch (error) {
      for (const output of outputs) output.finish()
      throw error
    } finally {
      if (terminal !== undefined) closeSync(terminal.fd)
      release()
    }
  },

  async resume(record, deps) {
    return new ProcessChild(deps, { record, wake: new Wake(deps.clock), outputs: openOutputs(deps, record.run) })
  },

  hasBegun,
  endUnbegun,
}

/** Loaded when it is needed: few runs have a terminal. */
async function terminalOf({ run }: LaunchFile, paths: HolderPaths): Promise<Terminal | undefined> {
  if (run.console?.kind !== 'pty') return undefined
  return (await import('./terminal.ts')).openTerminal(paths, run.console, run.isolation.uid)
}

/** A terminal has one output. */
function openOutputs({ paths, sink }: ChildDeps, { console }: HeldRun): FifoOutput[] {
  if (console?.kind === 'pty') return [new FifoOutput(paths.stdout, 'stdout', sink)]
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
    await this.#put(`${line}\n`, written)
  }

  async #put(text: string, written: () => void): Promise<void> {
    try {
      await this.#stdin.write(text, written)
    } catch (error) {
      if (this.#stdin.closed) throw new InputFailure('The program has ended', true)
      throw error instanceof StdinFull ? new InputFailure(error.message, false) : error
    }
  }

  async signal(name: NodeJS.Signals): Promise<boolean> {
    return signalRun(this.#scope, name)
  }

  async key(key: TerminalKey): Promise<boolean> {
    const { terminal } = this.#held.record
    if (terminal === undefined) return false
    const signals = key === '^D' || (await (await import('./terminal.ts')).signalsAt(terminal, key))
    await this.#put(KEY_BYTES[key], () => undefined)
    return signals !== false
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
    // What is in the terminal yet comes by its relay, which ends then.
    const hasTerminal = this.#held.record.terminal !== undefined
    for (const output of this.#held.outputs) {
      if (hasTerminal) await output.drained(LAST_WORDS_MS, this.#deps.clock)
      output.finish()
    }
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
    removeFolder(this.#deps.paths.io)
  }
}
