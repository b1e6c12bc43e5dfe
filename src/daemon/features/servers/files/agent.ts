import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { InputOf, RequestDefinition, ResultOf } from '../../../../shared/protocol/define.ts'
import type { OperationDeps } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import type { Transfers } from '../../../gateway/transfers.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import { deniedTo, refuseDenied } from './denied-files.ts'

/** What files of servers need. */
export interface FileDeps extends OperationDeps {
  readonly settings: Settings
  readonly gateway: Pick<Gateway, 'request'>
  readonly transfers: Transfers
}

/** The server, when its files may be looked at; throws SERVER_NOT_FOUND and SERVER_SUSPENDED. */
export async function serverOf({ db }: Pick<FileDeps, 'db'>, serverId: string): Promise<ServerRow> {
  const row = await findServerRow(db.read, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${serverId}`)
  refuseSuspended(row)
  return row
}

/** Where the files of a server are, and which of them whoever asks does not get; throws PERMISSION_DENIED when one of the paths is such. */
export async function reach(
  deps: Pick<FileDeps, 'db'>,
  serverId: string,
  { caller, paths }: { readonly caller: Pick<Holder, 'permissions'>; readonly paths: readonly string[] },
): Promise<{ readonly nodeId: string; readonly denied: string[] }> {
  const row = await serverOf(deps, serverId)
  for (const path of paths) refuseDenied(row, path, caller)
  return { nodeId: row.nodeId, denied: deniedTo(row, caller) }
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
