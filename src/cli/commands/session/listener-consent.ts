import { isLoopbackHost, listenersAt, untrustedOf, userName } from '../../../shared/platform/listener.ts'
import type { Run } from '../../kit/run.ts'

const CONNECT_TIMEOUT_MS = 5000

/**
 * Before a sign-in to a panel on this machine over plain http: when its program is another user's, who is neither root nor
 * accepted already, a person at a terminal is asked; answers whom was agreed on. Without a terminal the connection itself
 * refuses and names the flag.
 */
export async function agreeOnListener(run: Run, url: string): Promise<number | undefined> {
  const uids = await whoServes(run, url)
  const [stranger, another] = untrustedOf(uids, (await run.reach(url)).listenerUid)
  if (stranger === undefined || another !== undefined || !run.prompt.possible) return undefined
  const who = userName(stranger)
  await run.prompt.confirm(
    `${url} is served by a program of ${who}, not by root or you. Trust it with your credentials?`,
  )
  run.acceptListener(stranger)
  return stranger
}

/** The user that serves a panel on this machine, as it is kept with a sign-in: the one that is not root where there are two. */
export async function listenerToKeep(run: Run, url: string): Promise<number | undefined> {
  return (await whoServes(run, url)).reduce<number | undefined>(
    (kept, uid) => (kept === undefined ? uid : kept || uid),
    undefined,
  )
}

async function whoServes(run: Run, url: string): Promise<readonly number[]> {
  const { protocol, hostname, port } = new URL(url)
  const { socket } = await run.reach(url)
  if (protocol !== 'http:' || socket !== undefined || !isLoopbackHost(hostname)) return []
  const target = { host: hostname, port: Number(port || 80), timeoutMs: CONNECT_TIMEOUT_MS, onlyHere: true }
  try {
    return (await listenersAt(target)) ?? []
  } catch {
    return [] // the request that follows fails in the same way, and says why
  }
}
