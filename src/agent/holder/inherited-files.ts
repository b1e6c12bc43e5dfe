import { closeSync, readdirSync, readFileSync } from 'node:fs'

const CLOSE_ON_EXEC = 0o2000000

/**
 * Closes what whoever started this process left open in it, so that no program started from here inherits it. What this
 * process itself has opened is marked to be closed on exec, and by the missing mark the rest is known.
 */
export function closeInherited(): void {
  for (const name of readdirSync('/proc/self/fd')) {
    const fd = Number(name)
    if (fd <= 2 || !isInherited(fd)) continue
    closeSync(fd)
  }
}

function isInherited(fd: number): boolean {
  try {
    const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
  } catch {
    return false // the descriptor by which the folder was listed is closed already
  }
}
