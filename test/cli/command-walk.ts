import { expect } from 'vitest'
import { type Ran, type RunOptions, runPanel } from '../run-panel.ts'
import { runHere } from './run-here.ts'

/** What a run may differ in. */
export type WalkOptions = Omit<RunOptions, 'env'> & {
  /** Who runs it; the administrator when absent. */
  readonly token?: string
  readonly env?: Readonly<Record<string, string>>
}

/** Commands run against one panel, with a note of which were carried out. */
export interface CommandWalk<O> {
  run(args: readonly string[], options?: O): Promise<Ran>
  /** The output of a command that must succeed. */
  ok(args: readonly string[], options?: O): Promise<string>
  /** The same as JSON. */
  json(args: readonly string[], options?: O): Promise<ReturnType<typeof JSON.parse>>
  /** A command that must end with this exit code. */
  refused(code: number, args: readonly string[], options?: O): Promise<Ran>
  /** Notes a command that was carried out elsewhere. */
  note(path: string): void
  /** The commands that have not succeeded yet. */
  left(): string[]
}

/** A walk through these commands, each carried out by `start`. */
export function commandWalk<O>(
  paths: () => readonly string[],
  start: (args: readonly string[], options?: O) => Promise<Ran>,
): CommandWalk<O> {
  const done = new Set<string>()
  const run = async (args: readonly string[], options?: O): Promise<Ran> => {
    const ran = await start(args, options)
    // The longest first, so that `profile sessions list` is not taken for something shorter.
    const known = paths().toSorted((a, b) => b.length - a.length)
    const path = known.find((one) => `${args.join(' ')} `.startsWith(`${one} `))
    if (path !== undefined && ran.code === 0) done.add(path)
    return ran
  }
  const refused = async (code: number, args: readonly string[], options?: O): Promise<Ran> => {
    const ran = await run(args, options)
    expect(ran, `panel ${args.join(' ')}: ${ran.stderr}`).toMatchObject({ code })
    return ran
  }
  const ok = async (args: readonly string[], options?: O): Promise<string> => (await refused(0, args, options)).stdout
  return {
    run,
    ok,
    json: async (args, options) => JSON.parse(await ok([...args, '-o', 'json'], options)),
    refused,
    note: (path) => void done.add(path),
    left: () => paths().filter((path) => !done.has(path)),
  }
}

/** A walk with the built program against a panel of the tests. */
export function walkPanel(
  paths: readonly string[],
  panel: () => { readonly home: string; readonly url: string; readonly adminToken: string },
): CommandWalk<WalkOptions> {
  return commandWalk<WalkOptions>(
    () => paths,
    (args, { token, env, ...more } = {}) => {
      const { home, url, adminToken } = panel()
      return runBriefly(args, {
        env: { HOME: home, PANEL_URL: url, PANEL_TOKEN: token ?? adminToken, ...env },
        ...more,
      })
    },
  )
}

/** Commands that play another role, or act on this machine beside it. */
const OF_THE_HOST: ReadonlySet<string> = new Set(['agent', 'completion', 'daemon', 'db', 'down', 'up', '__complete'])

/**
 * Runs a command in this process where its output alone counts: a process of its own costs a third of a second. That the
 * binary does the same is seen by the tests of its exit codes, streams and terminals.
 */
export async function runBriefly(args: readonly string[], options: RunOptions): Promise<Ran> {
  const { env = {}, input = '', ...more } = options
  const needsProcess = Object.values(more).some((option) => option !== undefined)
  if (needsProcess || OF_THE_HOST.has(args[0] ?? '')) return runPanel(args, options)
  return { signal: null, ...(await runHere(args, { env, input })) }
}
