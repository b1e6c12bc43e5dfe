import type { Clock } from '../../shared/kernel/time.ts'
import { MachineProcesses } from '../holder/machine-processes.ts'

/** What was read is good for so long: a round over all servers is one reading. */
const FRESH_MS = 1000

/** The processes of this machine, read once for all runs that ask at about the same time. */
export class ProcessTable {
  readonly #clock: Clock
  #read: { readonly processes: MachineProcesses; readonly atMs: number } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): MachineProcesses {
    const atMs = this.#clock.monotonicMs()
    if (this.#read === undefined || atMs - this.#read.atMs > FRESH_MS)
      this.#read = { processes: new MachineProcesses(), atMs }
    return this.#read.processes
  }
}
