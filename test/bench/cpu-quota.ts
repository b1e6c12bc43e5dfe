import { access, mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { until } from './waiting.ts'

const PERIOD_US = 100_000
/** Where the cpu controller of cgroup v1 is mounted, by the names that systems give it. */
const V1 = ['/sys/fs/cgroup/cpu', '/sys/fs/cgroup/cpu,cpuacct']
const V2 = '/sys/fs/cgroup'

let made = 0

/** CPUs that some processes may use together, held by the kernel: a group of its cpu controller, of cgroup v1 or v2. */
export class CpuQuota {
  readonly cpus: number
  readonly #folder: string

  /** A quota of so many CPUs, or why there can be none here. */
  static async make(cpus: number): Promise<CpuQuota | { readonly missing: string }> {
    const problems: string[] = []
    for (const parent of await places()) {
      const folder = join(parent, `panel-bench-${process.pid}-${made++}`)
      try {
        await mkdir(folder)
      } catch (error) {
        problems.push(String(error))
        continue
      }
      try {
        await limit(folder, cpus)
        return new CpuQuota(cpus, folder)
      } catch (error) {
        problems.push(String(error))
        await rmdir(folder)
      }
    }
    return { missing: `no group of the cpu controller can be made: ${problems.join('; ') || 'it is not mounted'}` }
  }

  private constructor(cpus: number, folder: string) {
    this.cpus = cpus
    this.#folder = folder
  }

  /** Puts a process with all its threads under the quota; what it starts from now on is under it as well. */
  async add(pid: number): Promise<void> {
    await writeFile(join(this.#folder, 'cgroup.procs'), String(pid))
  }

  /** Removes the quota; its processes have ended. */
  async end(): Promise<void> {
    await until('the group of the quota to be empty', async () => {
      await rmdir(this.#folder)
      return true
    })
  }
}

/** Folders of the controller below which a group may be made, the likeliest first. */
async function places(): Promise<string[]> {
  const lines = (await readFile('/proc/self/cgroup', 'utf8')).trim().split('\n')
  const own = (isMine: (controllers: string) => boolean): string =>
    lines.map((line) => line.split(':')).find(([, controllers = '']) => isMine(controllers))?.[2] ?? '/'
  const found: string[] = []
  for (const mount of V1) if (await exists(join(mount, 'cpu.cfs_quota_us'))) found.push(mount)
  if (found.length > 0)
    return found.flatMap((mount) => [
      join(
        mount,
        own((list) => list.split(',').includes('cpu')),
      ),
      mount,
    ])
  // A group of v2 that has processes gives no controllers to groups below it: the place is beside our own.
  if (!(await exists(join(V2, 'cgroup.controllers')))) return []
  return [join(V2, dirname(own((list) => list === ''))), V2]
}

async function limit(folder: string, cpus: number): Promise<void> {
  const quota = Math.round(cpus * PERIOD_US)
  if (await exists(join(folder, 'cpu.cfs_quota_us'))) {
    await writeFile(join(folder, 'cpu.cfs_period_us'), String(PERIOD_US))
    await writeFile(join(folder, 'cpu.cfs_quota_us'), String(quota))
    return
  }
  if (!(await exists(join(folder, 'cpu.max')))) await writeFile(join(dirname(folder), 'cgroup.subtree_control'), '+cpu')
  await writeFile(join(folder, 'cpu.max'), `${quota} ${PERIOD_US}`)
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false, // that is the question
  )
}
