import { arch, cpus, hostname, release, totalmem, type } from 'node:os'
import { type AgentFrame, GATEWAY_PROTOCOL } from '../../shared/protocol/frames.ts'
import type { NodeMachine } from '../../shared/protocol/node.ts'
import type { SftpReport } from '../../shared/protocol/sftp.ts'
import type { DiskLimits } from '../disk/disk-limits.ts'
import { diskOf, machineAddresses } from '../node/node-health.ts'
import type { Runtimes } from '../runtime/runtimes.ts'
import type { Journal } from '../state/journal.ts'

/** The first frame of a connection: who this agent is and what its machine has. */
export async function helloFrame(about: {
  readonly version: string
  readonly bootId: string
  readonly dataDir: string
  readonly journal: Journal
  readonly runtimes: Runtimes
  readonly limits: DiskLimits
  /** What it can do, as its definitions name it. */
  readonly capabilities: readonly string[]
  /** `undefined`: the agent is a part of the daemon's own process. */
  readonly machine: NodeMachine | undefined
  /** `undefined`: it takes no SSH connections. */
  readonly sftp: SftpReport | undefined
}): Promise<AgentFrame> {
  const { journal } = about
  const [disk, reports, hold] = await Promise.all([
    diskOf(about.dataDir),
    about.runtimes.reports(),
    about.limits.node(),
  ])
  const runtimes = reports.map((report) => ({ ...report, disk: hold.enforced, diskReason: hold.reason }))
  return {
    type: 'hello',
    protocol: GATEWAY_PROTOCOL,
    agentVersion: about.version.slice(0, 64),
    bootId: about.bootId,
    journalId: journal.journalId,
    hostname: hostname().slice(0, 255),
    os: `${type()} ${release()}`.slice(0, 200),
    arch: arch(),
    cpus: cpus().length,
    memoryMb: Math.floor(totalmem() / (1024 * 1024)),
    diskMb: Math.floor(disk.totalMb),
    addresses: machineAddresses().slice(0, 256),
    runtimes,
    lastEvent: journal.outbox.lastSeq,
    acknowledged: journal.outbox.ack,
    capabilities: [...about.capabilities],
    ...(journal.hasLost ? { journalDamaged: true } : {}),
    ...(about.sftp === undefined ? {} : { sftp: about.sftp }),
    ...(about.machine === undefined ? {} : { machine: about.machine }),
  }
}
