import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** Ends a process and resolves when it is gone; one that has ended already is left alone. */
export async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}
