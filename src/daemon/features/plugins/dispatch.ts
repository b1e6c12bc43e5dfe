import type { EventType } from '../../../shared/kernel/events.ts'
import type { BusEvent } from '../../core/bus.ts'
import type { PluginDeps } from './deps.ts'
import { EventQueue } from './event-queue.ts'
import { CallFailure } from './failures.ts'
import type { Definition } from './manifest.ts'
import type { PluginLife } from './plugin-life.ts'
import type { PluginLog } from './plugin-log.ts'
import type { PluginRights } from './rights.ts'

const EVENT_MS = 10_000
const TASK_MS = 60_000

/** What one running plugin is served with. */
export interface DispatchDeps {
  readonly deps: Pick<PluginDeps, 'bus' | 'clock' | 'settings' | 'systemErrors'>
  readonly life: PluginLife
  readonly log: PluginLog
  readonly rights: PluginRights
  /** A handler that nobody waits for has failed. */
  readonly failed: (handler: string, failure: unknown) => void
}

/** Brings events to a plugin, until the returned function is called. */
export function dispatch(of: DispatchDeps): () => void {
  const { deps, life } = of
  const queue = new EventQueue({
    handlers: handlersByType(life.definition),
    holds: (permission) => of.rights.holds(life.definition.name, permission),
    ready: () => life.ready(),
    call: (handler, input) => life.callPatiently(handler, input, EVENT_MS),
    failed: of.failed,
  })
  const deaf = deps.bus.listen((event: BusEvent) => queue.offer(event))
  void queue.run().catch((error: unknown) => deps.systemErrors.capture(error, { component: 'plugins' }))
  return () => {
    deaf()
    queue.close()
  }
}

/** Calls the handler of a task; never fails. */
export async function runTask(
  of: Omit<DispatchDeps, 'deps' | 'rights'>,
  { name, handler }: { name: string; handler: string },
): Promise<void> {
  if (of.life.status !== 'enabled') {
    of.log.write('warn', `the task ${name} was left out: the plugin does not work`)
    return
  }
  try {
    await of.life.callPatiently(handler, { task: name }, TASK_MS)
  } catch (error) {
    // The end of the process is reported by whoever keeps it alive.
    if (!(error instanceof CallFailure) || error.end !== 'gone') of.failed(handler, error)
  }
}

function handlersByType({ events }: Definition): ReadonlyMap<EventType, readonly string[]> {
  const map = new Map<EventType, string[]>()
  for (const { type, handler } of events) map.set(type, [...(map.get(type) ?? []), handler])
  return map
}
