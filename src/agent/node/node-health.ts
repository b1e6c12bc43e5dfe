import { readFileSync, statfsSync } from 'node:fs'
import { cpus, loadavg, networkInterfaces, totalmem, uptime } from 'node:os'
import type { NodeHealth } from '../../shared/protocol/node.ts'

const MB = 1024 * 1024

interface CpuTimes {
  readonly busy: number
  readonly total: number
}

/**
 * Reads the usage of this machine; the CPU share is that since the call before. What the kernel has in memory is read at once: the
 * threads that wait for disks would be woken several times for each file.
 */
export class NodeGauge {
  readonly #dataDir: string
  #last: CpuTimes = cpuTimes()

  constructor(dataDir: string) {
    this.#dataDir = dataDir
  }

  read(runningServers: number): NodeHealth {
    const disk = diskOf(this.#dataDir)
    const network = networkBytes()
    return {
      cpuPercent: this.#cpuPercent(),
      load1: loadavg()[0] ?? 0,
      memoryUsageMb: memoryUsage(),
      memoryTotalMb: totalmem() / MB,
      diskUsageMb: disk.usedMb,
      diskTotalMb: disk.totalMb,
      networkRxBytes: String(network.rx),
      networkTxBytes: String(network.tx),
      uptimeSeconds: uptime(),
      runningServers,
    }
  }

  #cpuPercent(): number {
    const now = cpuTimes()
    const total = now.total - this.#last.total
    const busy = now.busy - this.#last.busy
    this.#last = now
    return total <= 0 ? 0 : Math.min(100, Math.max(0, (busy / total) * 100))
  }
}

/** Size and use of the file system that holds `folder`, in MiB. */
export function diskOf(folder: string): { usedMb: number; totalMb: number } {
  const { blocks, bfree, bsize } = statfsSync(folder)
  return { usedMb: ((blocks - bfree) * bsize) / MB, totalMb: (blocks * bsize) / MB }
}

/** The addresses of this machine, loopback included. */
export function machineAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  // Link-local IPv6 addresses cannot be bound without naming the interface.
  return all.map(({ address }) => address).filter((address) => !address.startsWith('fe80:'))
}

function cpuTimes(): CpuTimes {
  let busy = 0
  let total = 0
  for (const { times } of cpus()) {
    const all = times.user + times.nice + times.sys + times.idle + times.irq
    total += all
    busy += all - times.idle
  }
  return { busy, total }
}

function memoryUsage(): number {
  const text = readFileSync('/proc/meminfo', 'utf8')
  const available = /^MemAvailable:\s+(\d+) kB/m.exec(text)?.[1]
  return totalmem() / MB - Number(available ?? 0) / 1024
}

/** Bytes of all interfaces but loopback since the machine's start. */
function networkBytes(): { rx: bigint; tx: bigint } {
  let rx = 0n
  let tx = 0n
  for (const line of readFileSync('/proc/net/dev', 'utf8').split('\n').slice(2)) {
    const [name, counters] = line.split(':')
    if (counters === undefined || name?.trim() === 'lo') continue
    const columns = counters.trim().split(/\s+/)
    rx += BigInt(columns[0] ?? 0)
    tx += BigInt(columns[8] ?? 0)
  }
  return { rx, tx }
}
