import type { Mutant } from './mutant.ts'

const ADDRESS = ['test/daemon/node-address.test.ts'] as const
const BOOT = ['test/agent/boot.test.ts'] as const
const MOUNTS = ['test/agent/mounts.test.ts'] as const
const QUOTA = ['test/agent/disk/quota.test.ts'] as const
const RULES = 'src/agent/runtime/mounts.ts'

/** Mistakes in what a node holds its servers to, and in where players are sent. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: 'a node gets any address that its agent names',
    topic: 'limits',
    file: 'src/daemon/features/fleet/nodes/fields.ts',
    find: 'local.filter(isReachable)',
    replace: 'local.filter((ip) => !isLoopbackHost(ip))',
    seenBy: ADDRESS,
  },
  {
    title: 'a node that an agent has been on loses its address when a machine enrols',
    topic: 'limits',
    file: 'src/daemon/features/fleet/nodes/fields.ts',
    find: 'return isUnnamed && node.agentVersion === null ? UNDECIDED',
    replace: 'return isUnnamed ? UNDECIDED',
    seenBy: ADDRESS,
  },
  {
    title: 'a node whose servers were given an address stays without one of its own',
    topic: 'limits',
    file: 'src/daemon/features/fleet/nodes/link.ts',
    find: '...(publicAddress === undefined ? {} : { publicAddress }),',
    replace: '...(publicAddress === undefined || !undecided ? {} : { publicAddress }),',
    seenBy: ADDRESS,
  },
  {
    title: 'a plain edit takes disk away that is in use',
    topic: 'limits',
    file: 'src/daemon/features/servers/servers/edit.ts',
    find: '  refuseDiskBelowUse(row, diskMb, deps)\n',
    replace: '',
    seenBy: ['test/daemon/servers/storage.test.ts'],
  },
  {
    title: 'a server has the time zone of its node',
    topic: 'limits',
    file: 'src/agent/server/environment.ts',
    find: 'TZ: spec.timeZone ?? ownTimeZone(),',
    replace: 'TZ: ownTimeZone(),',
    seenBy: ['test/daemon/servers/life-settings.test.ts'],
  },
  {
    title: 'a link out of what is allowed is mounted',
    topic: 'limits',
    file: RULES,
    find: 'const real = realOf(source)\n',
    replace: 'const real = realOf(source) === undefined ? undefined : source\n',
    seenBy: MOUNTS,
  },
  {
    title: 'what may only be read is mounted to be written',
    topic: 'limits',
    file: RULES,
    find: 'if (!readOnly && within.every((allowed) => allowed.readOnly))',
    replace: 'if (!readOnly && within.length > 1 && within.every((allowed) => allowed.readOnly))',
    seenBy: MOUNTS,
  },
  {
    title: 'the boot policy never does not keep a server down',
    topic: 'limits',
    file: 'src/agent/server/boot.ts',
    find: "if (spec.boot?.policy === 'never' && (isDue || facts.desired === 'running')) {",
    replace: "if (spec.boot?.policy === 'never' && !isDue && facts.desired === 'running') {",
    seenBy: BOOT,
  },
  {
    title: 'a node starts all that waits at the same time',
    topic: 'limits',
    file: 'src/agent/server/start-places.ts',
    find: 'while (this.#held.size < this.atOnce) {',
    replace: 'while (this.#waiting.length > 0) {',
    seenBy: BOOT,
  },
  {
    title: 'another disk limit is not put in force while a server runs',
    topic: 'limits',
    file: 'src/agent/disk/disk-limits.ts',
    find: 'const isSame = before?.limitMb === server.limitMb && before.folder !== null',
    replace: 'const isSame = before !== undefined && before.folder !== null',
    seenBy: QUOTA,
  },
  {
    title: 'the agent itself writes past the disk limit',
    topic: 'limits',
    file: 'src/agent/disk/disk-room.ts',
    find: 'return Math.max(0, Math.floor((limitMb - (usedMb ?? 0)) * MIB))',
    replace: 'return Math.max(limitMb * MIB, Math.floor((limitMb - (usedMb ?? 0)) * MIB))',
    seenBy: QUOTA,
  },
]
