import { record } from './container-state.ts'
import type { Engine } from './engine.ts'

/** Whether an engine is Podman, by its answer to `/version`. */
export function isPodman(version: Record<string, unknown>): boolean {
  const parts = Array.isArray(version['Components']) ? version['Components'] : []
  return parts.some((part: unknown) => record(part)['Name'] === 'Podman Engine')
}

/** Whether the engine ends its containers when it is stopped or restarted itself. Those of Podman do not hang on its service. */
export async function endsWithItsContainers(engine: Engine): Promise<boolean> {
  const info = record(await engine.json({ method: 'GET', path: '/info' }))
  if (info['LiveRestoreEnabled'] !== false) return false
  return !isPodman(record(await engine.json({ method: 'GET', path: '/version' })))
}
