import { readFileSync, writeFileSync } from 'node:fs'

export const MIB = 1024 * 1024

/** How much more memory a process had at its highest while something was done than before, in MiB. */
export async function growthMib(pid: number, work: () => Promise<unknown>): Promise<number> {
  // Sets the highest back to what it has now.
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
  const before = fieldOf(pid, 'status', 'VmRSS') / 1024
  await work()
  return fieldOf(pid, 'status', 'VmHWM') / 1024 - before
}

/** What a process has read meanwhile, from wherever, in bytes. */
export async function readBytes(pid: number, work: () => Promise<unknown>): Promise<number> {
  const before = fieldOf(pid, 'io', 'rchar')
  await work()
  return fieldOf(pid, 'io', 'rchar') - before
}

function fieldOf(pid: number, file: string, name: string): number {
  const text = readFileSync(`/proc/${pid}/${file}`, 'utf8')
  const line = text.split('\n').find((each) => each.startsWith(`${name}:`))
  return Number(line?.split(/\s+/)[1])
}
