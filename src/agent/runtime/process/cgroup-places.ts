import { access, constants, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CgroupPlace } from '../../holder/holder-files.ts'
import type { RunPlan } from '../runtime.ts'

/** Control groups that this process may divide further, by the kernel's version of them. */
export type CgroupBase =
  | { readonly version: 2; readonly dir: string }
  | { readonly version: 1; readonly dirs: Readonly<Record<string, string>> }

const NEEDED = ['cpu', 'memory', 'pids'] as const
const V1_CONTROLLERS = ['memory', 'pids', 'cpu', 'cpuacct', 'cpuset', 'blkio'] as const
/** Controllers that a run joins only where it has a limit of theirs. */
const OPTIONAL = ['cpuset', 'io'] as const
const V1_WEIGHTS = ['blkio.weight', 'blkio.bfq.weight'] as const

/** Finds what this machine allows by trying it: version 2 with all three controllers, else each one of version 1, else nothing. */
export async function findCgroups(): Promise<CgroupBase | null> {
  const own = ownGroups(await readText('/proc/self/cgroup'))
  const mounts = (await readText('/proc/self/mounts')).split('\n').map((line) => line.split(' '))
  const v2 = mounts.find((mount) => mount[2] === 'cgroup2')?.[1]
  if (v2 !== undefined) {
    const dir = join(v2, own.get('') ?? '/')
    if (await canDivide(dir)) return { version: 2, dir }
  }
  const dirs: Record<string, string> = {}
  for (const controller of V1_CONTROLLERS) {
    const mount = mounts.find((one) => one[2] === 'cgroup' && one[3]?.split(',').includes(controller))?.[1]
    if (mount === undefined) continue
    const dir = join(mount, own.get(controller) ?? '/')
    if (await canMakeGroup(dir)) dirs[controller] = dir
  }
  return Object.keys(dirs).length > 0 ? { version: 1, dirs } : null
}

/** What the groups of this machine can do beyond memory, CPU time and processes. */
export async function optionalLimits(base: CgroupBase | null): Promise<{ cpuSets: boolean; ioWeights: boolean }> {
  if (base === null) return { cpuSets: false, ioWeights: false }
  if (base.version === 2) {
    const enabled = (await readText(join(base.dir, 'cgroup.subtree_control'))).trim().split(' ')
    return {
      cpuSets: enabled.includes('cpuset'),
      ioWeights: enabled.includes('io') && (await hasFile(base.dir, ['io.weight'])),
    }
  }
  const { cpuset, blkio } = base.dirs
  return { cpuSets: cpuset !== undefined, ioWeights: blkio !== undefined && (await hasFile(blkio, V1_WEIGHTS)) }
}

/** The groups of one run, which do not exist yet. Those of limits that it does not have are left out. */
export function cgroupOfRun(
  base: CgroupBase | null,
  launchId: string,
  { cpuSet, ioWeight }: Pick<RunPlan['limits'], 'cpuSet' | 'ioWeight'> = {},
): CgroupPlace | null {
  if (base === null) return null
  const name = `panel-${launchId.replace(/[^A-Za-z0-9_-]/g, '_')}`
  if (base.version === 2) return { version: 2, dir: join(base.dir, name) }
  const { cpuset, blkio, ...dirs } = base.dirs
  const joined = {
    ...dirs,
    ...(cpuset === undefined || cpuSet === undefined ? {} : { cpuset }),
    ...(blkio === undefined || ioWeight === undefined ? {} : { blkio }),
  }
  return { version: 1, dirs: Object.fromEntries(Object.entries(joined).map(([key, dir]) => [key, join(dir, name)])) }
}

/** Whether a group below this one has one of the files; the group of all others has fewer. */
async function hasFile(dir: string, files: readonly string[]): Promise<boolean> {
  const trial = join(dir, `panel-trial-${process.pid}-${globalThis.crypto.randomUUID()}`)
  try {
    await mkdir(trial)
    const there = await readdir(trial)
    await rmdir(trial)
    return files.some((file) => there.includes(file))
  } catch {
    return false // not delegated to us: that is the answer
  }
}

/** Lines of /proc/self/cgroup by controller; version 2 stands under the empty name. */
function ownGroups(text: string): Map<string, string> {
  const own = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, controllers, ...path] = line.split(':')
    for (const controller of (controllers ?? '').split(',')) if (path.length > 0) own.set(controller, path.join(':'))
  }
  return own
}

/** A group with processes of its own cannot be divided, so this process steps aside into a group beneath it first. */
async function canDivide(dir: string): Promise<boolean> {
  const offered = (await readText(join(dir, 'cgroup.controllers'))).trim().split(' ')
  if (!NEEDED.every((controller) => offered.includes(controller))) return false
  const enable = (): Promise<boolean> =>
    tryWrite(join(dir, 'cgroup.subtree_control'), NEEDED.map((one) => `+${one}`).join(' '))
  if (!(await canMakeGroup(dir))) return false
  const aside = join(dir, 'panel-agent')
  if (!(await enable())) {
    await mkdir(aside, { recursive: true })
    if (!(await tryWrite(join(aside, 'cgroup.procs'), String(process.pid))) || !(await enable())) return false
  }
  for (const controller of OPTIONAL) {
    if (offered.includes(controller)) await tryWrite(join(dir, 'cgroup.subtree_control'), `+${controller}`)
  }
  return true
}

async function canMakeGroup(dir: string): Promise<boolean> {
  const trial = join(dir, `panel-trial-${process.pid}-${globalThis.crypto.randomUUID()}`)
  try {
    await mkdir(trial)
    await access(join(trial, 'cgroup.procs'), constants.W_OK)
    await rmdir(trial)
    return true
  } catch {
    return false // not delegated to us: that is the answer
  }
}

async function tryWrite(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text)
    return true
  } catch {
    return false // the kernel refuses: that is the answer
  }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch {
    return '' // a kernel without it
  }
}
