import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RunPlan } from '../runtime/runtime.ts'
import type { CgroupPlace } from './holder-files.ts'
import { readKernelText } from './kernel-text.ts'
import { enforcedMemoryMb } from './memory-limit.ts'

const CPU_PERIOD_US = 100_000
const V1_CONTROLLERS: ReadonlySet<string> = new Set(['memory', 'pids', 'cpu', 'cpuacct'])
/** Where version 1 keeps the share of disk time; which one there is depends on the scheduler of the disks. */
const V1_WEIGHTS = ['blkio.weight', 'blkio.bfq.weight'] as const

/** Makes the groups of a run and sets its limits; a limit of 0 or less is none. */
export function makeCgroup(place: CgroupPlace, limits: RunPlan['limits']): void {
  for (const dir of foldersOf(place)) mkdirSync(dir, { recursive: true })
  const memory = enforcedMemoryMb(limits.memoryMb) * 1024 * 1024
  const quota = Math.max(1000, Math.round(limits.cpuCores * CPU_PERIOD_US))
  if (place.version === 2) {
    if (memory > 0) write(place.dir, 'memory.max', memory)
    if (memory > 0 && limits.swapMb >= 0) writeIfThere(place.dir, 'memory.swap.max', limits.swapMb * 1024 * 1024)
    if (memory > 0) writeIfThere(place.dir, 'memory.oom.group', 1)
    if (limits.cpuCores > 0) write(place.dir, 'cpu.max', `${quota} ${CPU_PERIOD_US}`)
    if (limits.pids > 0) write(place.dir, 'pids.max', limits.pids)
    // A kernel or a delegation without these is named in the report of the runtime, and in the console at the start.
    if (limits.cpuSet !== undefined) writeIfThere(place.dir, 'cpuset.cpus', limits.cpuSet)
    if (limits.ioWeight !== undefined) writeIfThere(place.dir, 'io.weight', weightOfV2(limits.ioWeight))
    return
  }
  const { memory: memoryDir, cpu, pids, cpuset, blkio } = place.dirs
  if (cpuset !== undefined && limits.cpuSet !== undefined) {
    // A group without memory nodes takes no processes.
    write(cpuset, 'cpuset.mems', readGroup(join(cpuset, '..'), 'cpuset.mems')?.trim() ?? '0')
    write(cpuset, 'cpuset.cpus', limits.cpuSet)
  }
  if (blkio !== undefined && limits.ioWeight !== undefined) {
    const weight = limits.ioWeight
    V1_WEIGHTS.some((file) => writeIfThere(blkio, file, weight))
  }
  if (memoryDir !== undefined && memory > 0) {
    write(memoryDir, 'memory.limit_in_bytes', memory)
    if (limits.swapMb >= 0) writeIfThere(memoryDir, 'memory.memsw.limit_in_bytes', memory + limits.swapMb * 1024 * 1024)
  }
  if (cpu !== undefined && limits.cpuCores > 0) {
    write(cpu, 'cpu.cfs_period_us', CPU_PERIOD_US)
    write(cpu, 'cpu.cfs_quota_us', quota)
  }
  if (pids !== undefined && limits.pids > 0) write(pids, 'pids.max', limits.pids)
}

/** Puts other limits in force for a run that lives. Throws when the kernel refuses one, as it does a memory limit below what is used. */
export function resizeCgroup(place: CgroupPlace, limits: RunPlan['limits']): void {
  const memory = enforcedMemoryMb(limits.memoryMb) * 1024 * 1024
  const quota = Math.max(1000, Math.round(limits.cpuCores * CPU_PERIOD_US))
  const pidsMax = limits.pids > 0 ? limits.pids : 'max'
  if (place.version === 2) {
    const swap = memory > 0 && limits.swapMb >= 0 ? limits.swapMb * 1024 * 1024 : 'max'
    writeIfThere(place.dir, 'memory.swap.max', swap)
    write(place.dir, 'memory.max', memory > 0 ? memory : 'max')
    write(place.dir, 'cpu.max', `${limits.cpuCores > 0 ? quota : 'max'} ${CPU_PERIOD_US}`)
    write(place.dir, 'pids.max', pidsMax)
    return
  }
  const { memory: memoryDir, cpu, pids } = place.dirs
  if (memoryDir !== undefined) {
    const both = memory > 0 && limits.swapMb >= 0 ? memory + limits.swapMb * 1024 * 1024 : -1
    // The limit with swap is never below the one without it, so the way up begins with the first, the way down with the second.
    const isUp = writeIfThere(memoryDir, 'memory.memsw.limit_in_bytes', both)
    write(memoryDir, 'memory.limit_in_bytes', memory > 0 ? memory : -1)
    if (!isUp) writeIfThere(memoryDir, 'memory.memsw.limit_in_bytes', both)
  }
  if (cpu !== undefined) write(cpu, 'cpu.cfs_quota_us', limits.cpuCores > 0 ? quota : -1)
  if (pids !== undefined) write(pids, 'pids.max', pidsMax)
}

/** The groups that a process is in, as this machine sees them; `null` where none of them can be found. */
export function cgroupOfProcess(pid: number): CgroupPlace | null {
  const own = readGroup('/proc', `${pid}/cgroup`)?.trim().split('\n') ?? []
  const mounts = (readGroup('/proc/self', 'mounts') ?? '').split('\n').map((line) => line.split(' '))
  const dirs: Record<string, string> = {}
  for (const line of own) {
    const [, controllers = '', ...path] = line.split(':')
    if (controllers === '') {
      const mount = mounts.find((one) => one[2] === 'cgroup2')?.[1]
      const dir = mount === undefined ? '' : join(mount, path.join(':'))
      if (readGroup(dir, 'memory.current') !== undefined) return { version: 2, dir }
      continue
    }
    for (const controller of controllers.split(',')) {
      const mount = mounts.find((one) => one[2] === 'cgroup' && one[3]?.split(',').includes(controller))?.[1]
      if (mount !== undefined && V1_CONTROLLERS.has(controller)) dirs[controller] = join(mount, path.join(':'))
    }
  }
  return Object.keys(dirs).length > 0 ? { version: 1, dirs } : null
}

/** Gives the run of a container its share of disk time, where version 1 of the kernel's groups keeps it; `false`: it cannot. */
export function setIoWeight(pid: number, weight: number): boolean {
  const path = readGroup('/proc', `${pid}/cgroup`)
    ?.split('\n')
    .map((line) => line.split(':'))
    .find(([, controllers]) => controllers?.split(',').includes('blkio'))
    ?.slice(2)
    .join(':')
  const mount = (readGroup('/proc/self', 'mounts') ?? '')
    .split('\n')
    .map((line) => line.split(' '))
    .find((one) => one[2] === 'cgroup' && one[3]?.split(',').includes('blkio'))?.[1]
  if (path === undefined || mount === undefined) return false
  return V1_WEIGHTS.some((file) => writeIfThere(join(mount, path), file, weight))
}

/** Puts a process, and so all that it starts, into the groups. */
export function joinCgroup(place: CgroupPlace, pid: number): void {
  for (const dir of foldersOf(place)) write(dir, 'cgroup.procs', pid)
}

/** Whether the kernel ends processes of this run when they need too much memory. */
export function limitsMemory(place: CgroupPlace | null): boolean {
  return place !== null && (place.version === 2 || place.dirs['memory'] !== undefined)
}

/** The processes in the groups. */
export function cgroupPids(place: CgroupPlace): number[] {
  const dir = foldersOf(place)[0]
  const text = dir === undefined ? undefined : readGroup(dir, 'cgroup.procs')
  return (text ?? '').split('\n').filter(Boolean).map(Number)
}

/** Ends every process of a version 2 group at once; `false` where the kernel cannot. */
export function killCgroup(place: CgroupPlace): boolean {
  return place.version === 2 && writeIfThere(place.dir, 'cgroup.kill', 1)
}

/** How many processes of the run the kernel has ended for want of memory. */
export function oomKills(place: CgroupPlace): number {
  const text =
    place.version === 2
      ? readGroup(place.dir, 'memory.events')
      : readGroup(place.dirs['memory'] ?? '', 'memory.oom_control')
  return Number(/^oom_kill (\d+)/m.exec(text ?? '')?.[1] ?? 0)
}

/** CPU seconds and bytes of memory of all processes of the run; `null` where this machine does not count them. */
export function cgroupUsage(place: CgroupPlace): { cpuSeconds: number | null; memoryBytes: number | null } {
  if (place.version === 2) {
    const micros = /^usage_usec (\d+)/m.exec(readGroup(place.dir, 'cpu.stat') ?? '')?.[1]
    const memory = memoryInUse(place.dir, ['memory.current', /^inactive_file (\d+)/m])
    return { cpuSeconds: micros === undefined ? null : Number(micros) / 1e6, memoryBytes: memory }
  }
  const nanos = readGroup(place.dirs['cpuacct'] ?? '', 'cpuacct.usage')
  const memory = memoryInUse(place.dirs['memory'] ?? '', ['memory.usage_in_bytes', /^total_inactive_file (\d+)/m])
  return { cpuSeconds: nanos === undefined ? null : Number(nanos) / 1e9, memoryBytes: memory }
}

/** Removes the groups. `false` while a process is still in one of them. */
export function removeCgroup(place: CgroupPlace): boolean {
  let gone = true
  for (const dir of foldersOf(place)) {
    try {
      rmdirSync(dir)
    } catch (error) {
      gone &&= error instanceof Error && 'code' in error && error.code === 'ENOENT'
    }
  }
  return gone
}

/** Every folder of the place. */
export function foldersOf(place: CgroupPlace): string[] {
  return place.version === 2 ? [place.dir] : [...new Set(Object.values(place.dirs))]
}

/** 10 to 1000 becomes 1 to 10,000, as container engines have it. */
function weightOfV2(weight: number): number {
  return Math.round(1 + ((weight - 10) * 9999) / 990)
}

/** What is cached of files that nobody reads any more is given back on demand, so it does not count as used. */
function memoryInUse(dir: string, [file, inactive]: [string, RegExp]): number | null {
  const used = readGroup(dir, file)
  if (used === undefined) return null
  const cached = inactive.exec(readGroup(dir, 'memory.stat') ?? '')?.[1]
  return Math.max(0, Number(used) - Number(cached ?? 0))
}

function write(dir: string, file: string, value: number | string): void {
  writeFileSync(join(dir, file), String(value))
}

function writeIfThere(dir: string, file: string, value: number | string): boolean {
  try {
    write(dir, file, value)
    return true
  } catch {
    return false // this kernel has no such knob (swap accounting is often off): the answer says so
  }
}

function readGroup(dir: string, file: string): string | undefined {
  if (dir === '') return undefined
  try {
    return readKernelText(join(dir, file))
  } catch {
    return undefined // the group is removed when its run ends
  }
}
