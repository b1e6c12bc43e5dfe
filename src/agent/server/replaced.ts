import { AgentFailure } from '../failure.ts'

/** Why an order was ended before its time: what its signal says, or else that a newer order has taken its place. */
export function replaced(signal?: AbortSignal, message = 'A newer order has replaced this one'): AgentFailure {
  return signal?.reason instanceof AgentFailure ? signal.reason : new AgentFailure('INTERRUPTED', message)
}
