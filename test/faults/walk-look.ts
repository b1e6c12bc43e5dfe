import { readdir, readFile } from 'node:fs/promises'
import type { Walker } from './walk-stage.ts'

/** What the operating system and the game's own book say of a server. */
export interface Sight {
  /** Processes of the server that no other process of it has started. */
  readonly roots: readonly number[]
  /** When the root began, in milliseconds since the epoch; `null` without one. */
  readonly startedAt: number | null
  readonly book: readonly BookRun[]
}

/** One run of the game as its book tells it. */
export interface BookRun {
  readonly pid: number
  readonly lines: readonly string[]
  /** The code with which it ended; `null`: it did not come to that. */
  readonly end: number | null
}

/** Looks at the processes of this machine, once for all servers. */
export async function lookAt(walkers: readonly Walker[]): Promise<Map<string, Sight>> {
  const families = await familiesOf(new Set(walkers.map(({ server }) => server.id)))
  const bootMs = Date.now() - Number((await readFile('/proc/uptime', 'utf8')).split(' ')[0]) * 1000
  const sights = new Map<string, Sight>()
  for (const walker of walkers) {
    const family = families.get(walker.server.id) ?? []
    const pids = new Set(family.map(({ pid }) => pid))
    const roots = family.filter(({ parent }) => !pids.has(parent))
    sights.set(walker.server.id, {
      roots: roots.map(({ pid }) => pid),
      startedAt: roots[0] === undefined ? null : bootMs + roots[0].startMs,
      book: await bookOf(walker),
    })
  }
  return sights
}

/** The runs in the order in which they began. */
export async function bookOf({ node, server }: Walker): Promise<BookRun[]> {
  const text = await readFile(`${node.node.dir}/servers/${server.id}/runs`, 'utf8').catch(() => '') // not started yet
  const runs: { pid: number; lines: string[]; end: number | null }[] = []
  for (const line of text.split('\n').slice(0, -1)) {
    const [word = '', ...rest] = line.split(' ')
    const run = runs.at(-1)
    if (word === 'start') runs.push({ pid: Number(rest[0]), lines: [], end: null })
    else if (word === 'end' && run !== undefined) run.end = Number(rest[0])
    else if (word === 'line') run?.lines.push(rest.join(' '))
  }
  return runs
}

/** The processes that hold the server's runs; one at most, but for the moment in which one takes over. */
export async function holdersOf({ node, server }: Walker): Promise<number[]> {
  const state = `${node.node.dir}/state/${server.id}`
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    // A process that has ended in this moment is none.
    const argv = (await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')).split('\0')
    if (argv.includes('__holder') && argv.includes(state)) found.push(Number(name))
  }
  return found
}

interface Kin {
  readonly pid: number
  readonly parent: number
  readonly startMs: number
}

/** Living processes by the server whose environment they have. */
async function familiesOf(serverIds: ReadonlySet<string>): Promise<Map<string, Kin[]>> {
  const families = new Map<string, Kin[]>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const environment = (await readFile(`/proc/${name}/environ`, 'utf8')).split('\0')
      const id = environment.find((entry) => entry.startsWith('PANEL_SERVER_ID='))?.slice('PANEL_SERVER_ID='.length)
      if (id === undefined || !serverIds.has(id)) continue
      const kin = kinOf(Number(name), await readFile(`/proc/${name}/stat`, 'utf8'))
      if (kin !== undefined) families.set(id, [...(families.get(id) ?? []), kin])
    } catch {
      // It has ended in this moment: then it is none of them.
    }
  }
  return families
}

/** `undefined` for a zombie. Times of the kernel are in hundredths of a second since the boot. */
function kinOf(pid: number, stat: string): Kin | undefined {
  const [state = 'X', parent = '', ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (state === 'Z' || state === 'X') return undefined
  return { pid, parent: Number(parent), startMs: Number(rest[17]) * 10 }
}
