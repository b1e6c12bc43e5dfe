import { newIdSuffix } from '../../shared/kernel/ids.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { RuntimeName } from '../../shared/protocol/server-spec.ts'
import type { ContainerPlace, HeldConsole, HeldRun, Isolation } from '../holder/holder-files.ts'
import type { RunPlan, ServerPlace } from './runtime.ts'
import { socketPath } from './socket-place.ts'

/** The size of a terminal whose template does not say one. */
const COLUMNS = 200
const ROWS = 50

/** Who holds a run, and how it is kept apart. */
export interface HoldOptions {
  readonly runtime: RuntimeName
  readonly dataDir: string
  readonly clock: Clock
  readonly isolation: Isolation
  readonly container?: ContainerPlace
}

/** What a holder has to know of the run of a plan, whichever runtime starts it. */
export async function heldRun(place: ServerPlace, plan: RunPlan, options: HoldOptions): Promise<HeldRun> {
  const { dataDir, clock, ...how } = options
  const { kind, launchId, limits, logMb, masked } = plan
  return {
    serverId: place.serverId,
    kind,
    launchId,
    socket: await socketPath(dataDir, place.serverId),
    logMb,
    newEpoch: newIdSuffix(clock),
    limits,
    ...(masked === undefined ? {} : { masked }),
    ...heldConsole(plan, place.files),
    ...how,
  }
}

/** The size of the terminal of a plan; `undefined` without one. */
export function terminalSize({ console }: RunPlan): { readonly columns: number; readonly rows: number } | undefined {
  return console?.kind === 'pty' ? { columns: console.columns ?? COLUMNS, rows: console.rows ?? ROWS } : undefined
}

/** What a holder does for the console of a plan beside pipes; the files of the server are in `folder`. */
function heldConsole(plan: RunPlan, folder: string): { console?: HeldConsole } {
  const size = terminalSize(plan)
  if (size !== undefined) return { console: { kind: 'pty', ...size } }
  return plan.console?.kind === 'file' ? { console: { kind: 'file', folder, path: plan.console.path } } : {}
}
