import type { ServerFacts } from '../state/journal-record.ts'
import { isEulaPending } from './eula.ts'
import type { GameServer } from './server.ts'

const RESTARTED = 'The machine was restarted'

/**
 * Does once per boot of the machine what a server's boot policy says, when it is known how the server was left. By `unless-stopped`
 * nothing more is to be done: what was wanted is due to start again. `never` keeps down what is due, and `always` also starts what was
 * stopped, where it can be started at all.
 */
export async function applyBootPolicy(server: GameServer): Promise<void> {
  const { bootId } = server.context
  if (server.facts.bootId === bootId) return
  const { launch } = server.facts
  // A journal of an older agent says no boot; its last run says one.
  const isNewBoot = server.facts.bootId !== undefined || (launch !== null && launch.bootId !== bootId)
  const facts = isNewBoot && server.live === undefined ? await factsAfterBoot(server) : undefined
  if (facts === undefined) return await server.record({ bootId })
  await server.change({
    power: facts.nextRestartAtMs === null ? 'offline' : 'starting',
    facts: { ...facts, bootId },
  })
}

type BootFacts = Pick<ServerFacts, 'desired' | 'crashed' | 'nextRestartAtMs' | 'reason'> & Partial<ServerFacts>

/** What changes by the policy; `undefined`: nothing. */
async function factsAfterBoot(server: GameServer): Promise<BootFacts | undefined> {
  const { spec, facts, context } = server
  const isDue = facts.nextRestartAtMs !== null
  if (spec.boot?.policy === 'never' && (isDue || facts.desired === 'running')) {
    const reason = `${RESTARTED}; by its boot policy (never) the server stays stopped until somebody starts it`
    return { desired: 'stopped', crashed: false, nextRestartAtMs: null, reason }
  }
  if (spec.boot?.policy !== 'always' || isDue || !(await canStart(server))) return undefined
  const reason = `${RESTARTED}; it is started by its boot policy (always)`
  const fresh = { crashes: [], finishes: [] }
  return { desired: 'running', crashed: false, nextRestartAtMs: context.clock.nowMs(), reason, ...fresh }
}

async function canStart(server: GameServer): Promise<boolean> {
  const { spec, facts, activity } = server
  if (spec.suspended || activity !== null || facts.installError !== null) return false
  if (spec.install !== null && !facts.installed) return false
  return !(await isEulaPending(server))
}
