import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { NodeMachine } from '../protocol/node.ts'

/** The kernel's start time of a living process in clock ticks; `undefined` for none and for a zombie. */
export async function processStart(pid: number): Promise<string | undefined> {
  let text: string
  try {
    text = await readFile(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined // no such process: that is the answer
  }
  // The second field is the program's name in brackets and may itself hold brackets and blanks.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (fields[0] === 'Z' || fields[0] === 'X') return undefined
  return fields[19]
}

/** Changes with every boot of the machine. */
export async function machineBootId(): Promise<string> {
  try {
    return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()
  } catch {
    return 'unknown' // without it a reboot looks like a lost process, which is handled as well
  }
}

/**
 * This machine, for a daemon that has to distinguish it from another one with the same key. The installation's id is hashed: it is
 * nobody else's matter. Containers often have none; then only the boot can be compared.
 */
export async function thisMachine(nodeId: string): Promise<NodeMachine> {
  let installed = ''
  try {
    installed = (await readFile('/etc/machine-id', 'utf8')).trim()
  } catch {
    // not every system has one
  }
  const isId = /^[0-9a-f]{32}$/.test(installed)
  const id = isId ? createHash('sha256').update(`panel node ${nodeId} ${installed}`).digest('hex') : null
  return { id, bootId: (await machineBootId()).slice(0, 64) }
}
