import { type Engine, EngineAway } from './engine.ts'

/** What the engine says of a container. */
export interface ContainerState {
  readonly id: string
  readonly running: boolean
  /** Its processes are stopped until somebody lets them go on. */
  readonly paused: boolean
  /** Whether its program has ever run. */
  readonly hasRun: boolean
  /** The number of its first process on this machine; 0 without one. */
  readonly pid: number
  readonly exitCode: number
  readonly oomKilled: boolean
  /** Why it could not be started; empty without a reason. */
  readonly error: string
  /** Milliseconds since the epoch; `undefined` while it runs. */
  readonly endedAtMs: number | undefined
}

/** Asks for the state of a container. Rejects with EngineRefusal (404: it is not there) or EngineAway. */
export async function containerState(engine: Engine, name: string): Promise<ContainerState> {
  const answer = record(await engine.json({ method: 'GET', path: `/containers/${name}/json` }))
  const state = record(answer['State'])
  const endedAtMs = Date.parse(text(state['FinishedAt']))
  const running = state['Running'] === true
  return {
    id: text(answer['Id']),
    running,
    paused: state['Paused'] === true,
    hasRun: running || Date.parse(text(state['StartedAt'])) > 0,
    pid: number(state['Pid']),
    exitCode: number(state['ExitCode']),
    oomKilled: state['OOMKilled'] === true,
    error: text(state['Error']).slice(0, 500),
    endedAtMs: running || !(endedAtMs > 0) ? undefined : endedAtMs,
  }
}

/** A part of an answer that must be an object. */
export function record(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null)
    throw new EngineAway('The container engine has answered unexpectedly')
  return { ...value }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function number(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0
}
