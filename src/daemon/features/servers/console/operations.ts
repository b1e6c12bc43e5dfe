import { sendCommand } from '../../../../shared/api/console.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { type Clock, now } from '../../../../shared/kernel/time.ts'
import { typeConsoleLines } from '../../../../shared/protocol/console.ts'
import { type OperationDeps, type Principal, recordChange, userIdOf } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { gather } from '../../../db/gather.ts'
import { agentCodeOf } from '../../../gateway/agent-errors.ts'
import { refuseByStatus } from '../servers/orders.ts'
import { statusOf } from '../servers/view.ts'
import type { CommandLimit } from './command-limit.ts'
import type { ConsoleGateway } from './feed.ts'
import { findTypingRow, type TypingRow } from './rows.ts'
import { typedCommand } from './typed-command.ts'

/** What typing a command needs. */
export interface TypeDeps extends OperationDeps {
  readonly clock: Clock
  readonly settings: Settings
  readonly gateway: ConsoleGateway
  readonly limit: CommandLimit
  isOnline(nodeId: string): boolean
}

const NO_INPUT = 'This game takes no input from its console; use its own tools in the game'

/** The agent knows what the running game was started with; one of before there were kinds would type into its input. */
function isTooOldToRefuse({ gateway }: TypeDeps, row: TypingRow): boolean {
  return row.consoleKind === 'none' && !gateway.can(row.nodeId, 'console-kinds@1')
}

/** A command in the audit log, and who has typed it. */
interface Typed {
  readonly principal: Principal
  readonly serverId: string
  readonly details: Readonly<Record<string, unknown>>
}

type Recorder = (typed: Typed) => Promise<void>

/** Types commands as {@link typeCommand} does; those that come together are written to the audit log in one transaction. */
export function commandDesk(
  deps: TypeDeps,
): (principal: Principal, input: Input<typeof sendCommand>) => Promise<Answer<typeof sendCommand>> {
  const record = gather<Typed, void>(deps.db, async (tx, all) => {
    for (const typed of all) await recordTyped(tx, deps, typed)
    return all.map(() => ({ value: undefined }))
  })
  return (principal, input) => type(deps, { principal, input, record })
}

/**
 * Types a command into a game; resolves when the game has the line. Work of two transactions with the node between them: the
 * audit row comes first, so that no line reaches a game without one, whatever ends meanwhile; a line that did not get there,
 * or of which nobody can say, gets a second row with that outcome.
 */
export function typeCommand(
  deps: TypeDeps,
  principal: Principal,
  input: Input<typeof sendCommand>,
): Promise<Answer<typeof sendCommand>> {
  return type(deps, { principal, input, record: (typed) => deps.db.write((tx) => recordTyped(tx, deps, typed)) })
}

async function type(
  deps: TypeDeps,
  {
    principal,
    input: { params, body },
    record,
  }: { readonly principal: Principal; readonly input: Input<typeof sendCommand>; readonly record: Recorder },
): Promise<Answer<typeof sendCommand>> {
  const { db, clock, settings, gateway, limit } = deps
  const { serverId } = params
  const { command: text } = body
  const row = await findTypingRow(db.read, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${serverId}`)
  if (principal.kind === 'caller') {
    limit.take(userIdOf(principal) ?? '', row.id, settings.get('limits.consoleCommandsPerMinute'))
  }
  refuseByStatus(row, 'command', deps.isOnline(row.nodeId))
  if (isTooOldToRefuse(deps, row)) throw new PanelError('CONSOLE_NO_INPUT', NO_INPUT)

  const command = { command: typedCommand(text), length: text.length }
  await record({ principal, serverId: row.id, details: command })
  try {
    await gateway.request(row.nodeId, typeConsoleLines, { serverId: row.id, lines: [text] })
  } catch (error) {
    const agentCode = agentCodeOf(error)
    // Without an answer from the node itself the line may have reached the game.
    const outcome = agentCode === undefined ? 'unknown' : 'refused'
    await record({ principal, serverId: row.id, details: { ...command, outcome } })
    // The limits of a console depend on what the game takes its lines by, which its node knows.
    if (agentCode === 'BAD_REQUEST' && error instanceof PanelError) throw fieldError('body.command', error.message)
    if (agentCode !== 'NOT_RUNNING' && agentCode !== 'UNKNOWN_SERVER') throw error
    throw new PanelError('SERVER_INVALID_STATE', 'The server has ended meanwhile; nothing was typed', {
      meta: { currentStatus: statusOf(row), allowed: ['starting', 'running', 'stopping'] },
      cause: error,
    })
  }
  return { sent: true, timestamp: now(clock) }
}

function recordTyped(tx: Tx, deps: TypeDeps, { principal, serverId, details }: Typed): Promise<void> {
  return recordChange(tx, { deps, principal, endpoint: sendCommand }, { audit: { resourceId: serverId, details } })
}
