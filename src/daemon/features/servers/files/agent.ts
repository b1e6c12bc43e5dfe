import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { InputOf, RequestDefinition, ResultOf } from '../../../../shared/protocol/define.ts'
import type { OperationDeps } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import type { Transfers } from '../../../gateway/transfers.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'

/** What files of servers need. */
export interface FileDeps extends OperationDeps {
  readonly settings: Settings
  readonly gateway: Pick<Gateway, 'request' | 'refusalOf' | 'can'>
  readonly transfers: Transfers
  readonly clock: Clock
}

/** The server, when its files may be looked at; throws SERVER_NOT_FOUND and SERVER_SUSPENDED. */
export async function serverOf({ db }: Pick<FileDeps, 'db'>, serverId: string): Promise<ServerRow> {
  const row = await findServerRow(db.read, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${serverId}`)
  refuseSuspended(row)
  return row
}

/**
 * Asks the agent of a server. What it refuses about a path names the field of the request: `part` is where the fields of the agent's own
 * request lie in it.
 */
export async function askAgent<D extends RequestDefinition>(
  { gateway }: Pick<FileDeps, 'gateway'>,
  definition: D,
  {
    nodeId,
    input,
    part,
    signal,
    onProgress,
    fieldOf,
  }: {
    readonly nodeId: string
    readonly input: InputOf<D>
    readonly part: 'query' | 'body'
    readonly signal: AbortSignal
    readonly onProgress?: ((now: { readonly entries: number; readonly bytes: number }) => void) | undefined
    /** What a field of the agent's request is called in that of the API. */
    readonly fieldOf?: (field: string) => string
  },
): Promise<ResultOf<D>> {
  refuseOldAgent(gateway, nodeId, input)
  try {
    const options = {
      ...(definition.cancels ? { signal } : {}),
      ...(onProgress === undefined ? {} : { onProgress: onProgress as (now: unknown) => void }), // what all long ones report
    }
    return (await gateway.request<RequestDefinition>(nodeId, definition, input, options)) as ResultOf<D> // answered by this very definition
  } catch (error) {
    throw withField(error, part, fieldOf)
  }
}

/** Refuses what an older agent would not hold to the paths of a member. */
export function refuseOldAgent(gateway: Pick<FileDeps['gateway'], 'refusalOf'>, nodeId: string, input: object): void {
  if (!('filePaths' in input) || input.filePaths === undefined) return
  const refusal = gateway.refusalOf(nodeId, ['file-paths@1'])
  if (refusal === undefined) return
  throw new PanelError('AGENT_VERSION', `${refusal}: your access is held to some files of the server`, {
    meta: { capability: 'file-paths@1' },
  })
}

const OF_PATHS = new Set(['FILE_PATH_INVALID', 'FILE_NOT_FOUND', 'CONFLICT'])

/** The same failure, which names the field when it is about a path. */
export function withField(
  error: unknown,
  part: 'query' | 'body',
  fieldOf: (field: string) => string = (field) => field,
): unknown {
  if (!(error instanceof PanelError)) return error
  const { agentField, ...meta } = error.meta
  if (error.code !== 'FILE_PATH_INVALID' && typeof agentField !== 'string') return error
  if (!OF_PATHS.has(error.code)) return error
  const field = `${part}.${typeof agentField === 'string' ? fieldOf(agentField) : 'path'}`
  const message = error.code === 'FILE_PATH_INVALID' ? `${field} ${error.message}` : error.message
  return new PanelError(error.code, message, { meta, details: [{ field, message: error.message }], cause: error })
}
