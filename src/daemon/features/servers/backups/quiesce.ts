import type { BackupCommand } from '../../../../shared/api/backups.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import type { ServerId } from '../../../../shared/kernel/ids.ts'
import { fetchConsole } from '../../../../shared/protocol/console.ts'
import { compileBounded, PatternProblem } from '../../../../shared/templates/bounded-pattern.ts'
import type { Principal } from '../../../access/operation.ts'
import { CommandLimit } from '../console/command-limit.ts'
import { typeCommand } from '../console/operations.ts'
import type { ServerRow } from '../servers/rows.ts'
import { statusOf } from '../servers/view.ts'
import type { BackupDeps } from './deps.ts'

const LOOK_MS = 250
const PAGE = 500
/** Where a line is waited for and no time is given. */
const DEFAULT_SECONDS = 30

/** Refuses expressions that cannot be used. */
export function checkCommands(commands: readonly BackupCommand[], field: string): void {
  for (const [index, { waitFor }] of commands.entries()) {
    if (waitFor === null) continue
    try {
      compileBounded(waitFor)
    } catch (error) {
      if (!(error instanceof PatternProblem)) throw error
      throw fieldError(`body.${field}.${index}.waitFor`, error.message)
    }
  }
}

/**
 * Types commands into a running server, one after the other, and waits behind each. What does not come in time, or cannot be typed, is
 * answered as a sentence and does not stop the rest. A server that does not run gets none.
 */
export async function typeAll(
  deps: BackupDeps,
  row: ServerRow,
  {
    commands,
    principal,
    signal,
  }: { readonly commands: readonly BackupCommand[]; readonly principal: Principal; readonly signal: AbortSignal },
): Promise<string[]> {
  const notes: string[] = []
  if (commands.length === 0 || statusOf(row) !== 'running') return notes
  for (const one of commands) {
    try {
      const note = await typeOne(deps, row, { one, principal, signal })
      if (note !== undefined) notes.push(note)
    } catch (error) {
      if (signal.aborted || !(error instanceof PanelError)) throw error
      notes.push(`the console command "${shown(one)}" was not typed: ${error.message}`)
    }
  }
  return notes
}

async function typeOne(
  deps: BackupDeps,
  row: ServerRow,
  {
    one,
    principal,
    signal,
  }: { readonly one: BackupCommand; readonly principal: Principal; readonly signal: AbortSignal },
): Promise<string | undefined> {
  const { clock, gateway } = deps
  const { waitFor } = one
  const fetch = (after: number, max: number) =>
    gateway.request(row.nodeId, fetchConsole, { serverId: row.id, max, after })
  const { last } = waitFor === null ? { last: 0 } : await fetch(Number.MAX_SAFE_INTEGER, 1)
  await typeCommand(
    { ...deps, limit: new CommandLimit(clock), isOnline: (nodeId) => gateway.isOnline(nodeId) },
    principal,
    { params: { serverId: row.id as ServerId }, query: undefined, body: { command: one.command } },
  )
  const seconds = waitFor !== null && one.waitSeconds === 0 ? DEFAULT_SECONDS : one.waitSeconds
  if (waitFor === null) {
    await clock.sleep(seconds * 1000, signal)
    signal.throwIfAborted()
    return undefined
  }
  const pattern = compileBounded(waitFor)
  const until = clock.monotonicMs() + seconds * 1000
  let cursor = last
  for (;;) {
    const { lines } = await fetch(cursor, PAGE)
    if (lines.some(([, , , text]) => pattern.find(text))) return undefined
    cursor = lines.at(-1)?.[0] ?? cursor
    if (clock.monotonicMs() >= until) break
    if (lines.length < PAGE) await clock.sleep(LOOK_MS, signal)
    signal.throwIfAborted()
  }
  return `no line matched ${waitFor.slice(0, 100)} within ${seconds} s of the console command "${shown(one)}"`
}

function shown({ command }: BackupCommand): string {
  return command.slice(0, 100)
}
