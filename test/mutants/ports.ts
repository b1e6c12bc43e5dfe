import type { Mutant } from './mutant.ts'

const DAEMON = ['test/daemon/servers/ports.test.ts'] as const
const AGENT = ['test/agent/ports.test.ts'] as const
const CLAIMS = 'src/daemon/features/servers/servers/ports.ts'

/** Mistakes with the ports of servers. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: 'a port is chosen where a required one at a distance has no place',
    topic: 'ports',
    file: CLAIMS,
    find: 'if ([0, ...offsets].every(',
    replace: 'if ([0].every(',
    seenBy: DAEMON,
  },
  {
    title: 'a port at a distance stays where it is when the primary one moves',
    topic: 'ports',
    file: CLAIMS,
    find: 'if (known !== undefined && known.offset !== null) return',
    replace: 'if (known !== undefined && known.offset === null) return',
    seenBy: DAEMON,
  },
  {
    title: 'a game that binds all addresses is given a port beside another address',
    topic: 'ports',
    file: 'src/daemon/features/fleet/nodes/port-holds.ts',
    find: 'hold.ip === ip || hold.bindsAll || bindsAll',
    replace: 'hold.ip === ip || bindsAll',
    seenBy: DAEMON,
  },
  {
    title: 'what the node has found in use is chosen',
    topic: 'ports',
    file: CLAIMS,
    find: 'return !looks.isTaken(',
    replace: 'return looks !== undefined || !looks.isTaken(',
    seenBy: DAEMON,
  },
  {
    title: 'a member takes a port that the operator has not put there',
    topic: 'ports',
    file: CLAIMS,
    find: 'if (this.#claim.allowed?.has(ip, port) !== false) return',
    replace: 'if (port > 0) return',
    seenBy: DAEMON,
  },
  {
    title: 'a further port is looked at by both protocols whatever it speaks',
    topic: 'ports',
    file: 'src/agent/server/ports.ts',
    find: 'const own = { ip, port, protocol }',
    replace: 'const own = { ip, port, protocol: primary ? protocol : undefined }',
    seenBy: AGENT,
  },
  {
    title: 'the ports of a game that binds all addresses are looked at on one',
    topic: 'ports',
    file: 'src/agent/server/ports.ts',
    find: 'return bindsAll === true ?',
    replace: 'return bindsAll === undefined ?',
    seenBy: AGENT,
  },
]
