import { record } from './container-state.ts'
import { type Engine, EngineRefusal, isMissing } from './engine.ts'

/** Whose a container is: containers without the label of this agent are never touched. */
export const LABEL = { agent: 'panel.agent', server: 'panel.server', run: 'panel.run' } as const

/** A container that an agent has made. */
export interface OwnContainer {
  readonly id: string
  readonly serverId: string
}

/** How long the engine may take to remove what it already is removing. */
const REMOVAL_LOOKS = 100
const LOOK_MS = 100
const ID = /^[0-9a-f]{12,64}$/

/** The containers of an agent, also those that have never started: all of them, or those of one server. */
export async function ownContainers(
  engine: Engine,
  { agent, serverId, signal }: { readonly agent: string; readonly serverId?: string; readonly signal?: AbortSignal },
): Promise<OwnContainer[]> {
  const label = [`${LABEL.agent}=${agent}`, ...(serverId === undefined ? [] : [`${LABEL.server}=${serverId}`])]
  const path = `/containers/json?all=1&filters=${encodeURIComponent(JSON.stringify({ label }))}`
  const answer = await engine.json({ method: 'GET', path, ...(signal === undefined ? {} : { signal }) })
  return (Array.isArray(answer) ? answer : []).flatMap((one: unknown) => {
    const { Id: id, Labels } = record(one)
    const labels = record(Labels ?? {})
    const server = labels[LABEL.server]
    // An engine that does not know a filter passes it over.
    const isOwn = labels[LABEL.agent] === agent && (serverId === undefined || server === serverId)
    return isOwn && typeof id === 'string' && ID.test(id) && typeof server === 'string'
      ? [{ id, serverId: server }]
      : []
  })
}

/** Ends and removes a container with the volumes that its image declares. Resolves when it is gone. */
export async function removeContainer(engine: Engine, id: string): Promise<void> {
  for (let look = 1; ; look++) {
    try {
      await engine.json({ method: 'DELETE', path: `/containers/${id}?force=1&v=1` })
      return
    } catch (error) {
      if (isMissing(error)) return
      // Somebody else is at it: it has gone when the engine does not know it any more.
      const isGoing = error instanceof EngineRefusal && error.status === 409
      if (!isGoing || look === REMOVAL_LOOKS) throw error
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }
}
