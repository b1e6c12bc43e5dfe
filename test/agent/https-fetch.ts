import { Agent, fetch } from 'undici'
import type { Fetch } from '../../src/shared/client.ts'

/** A fetch that trusts one certificate. */
export function httpsFetch(ca: string): Fetch {
  const dispatcher = new Agent({ connect: { ca } })
  return (url, init) => fetch(url, { ...init, dispatcher })
}
