import { readFileSync, realpathSync } from 'node:fs'
import type { Clock } from '../../shared/kernel/time.ts'
import { BtrfsQuota } from './btrfs-quota.ts'
import { runProgram } from './programs.ts'
import { ProjectQuota } from './project-quota.ts'
import type { QuotaBackend } from './quota.ts'

/** What holds the disk limits of an agent, or why nothing does. */
export type FoundQuota =
  | { readonly backend: QuotaBackend; readonly reason: null }
  | { readonly backend: null; readonly reason: string }

/** A line of /proc/self/mountinfo. */
interface Mount {
  readonly point: string
  readonly type: string
  readonly options: readonly string[]
}

/** Looks at the file system of a folder, and at the programs of the machine, for a quota that can be used there. */
export async function findQuota(folder: string, clock: Clock): Promise<FoundQuota> {
  if (process.getuid?.() !== 0) return none('the agent does not run as root')
  const mount = mountOf(folder)
  if (mount === undefined) return none('the file system of the data folder is not listed')
  const { type, point, options } = mount
  if (type === 'btrfs') {
    const shown = await runProgram('btrfs', ['qgroup', 'show', '--raw', folder])
    if (shown.ok) return { backend: new BtrfsQuota(folder, clock), reason: null }
    const isOff = /not enabled|not found/i.test(shown.problem)
    return none(isOff ? `btrfs has no quotas there: enable them with \`btrfs quota enable ${point}\`` : shown.problem)
  }
  if (type !== 'ext4' && type !== 'xfs') return none(`the file system (${type.slice(0, 32)}) has no quotas of folders`)
  if (!options.includes('prjquota')) return none(`${type} is mounted without the option prjquota there`)
  for (const choices of [['chattr'], type === 'xfs' ? ['setquota', 'xfs_quota'] : ['setquota']]) {
    const there = await Promise.all(choices.map(has))
    if (!there.includes(true)) return none(`the program ${choices.join(' or ')} is not installed`)
  }
  return { backend: new ProjectQuota({ type, mountPoint: point }), reason: null }
}

async function has(program: string): Promise<boolean> {
  return !(await runProgram(program, ['-V'])).problem.includes('not installed')
}

function none(reason: string): FoundQuota {
  return { backend: null, reason }
}

/** The mount that a folder is in: of all that lie on the way to it, the longest and last. */
function mountOf(folder: string): Mount | undefined {
  const path = realpathSync(folder)
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n').flatMap(readMount)
  const above = mounts.filter(({ point }) => point === '/' || path === point || path.startsWith(`${point}/`))
  const longest = Math.max(...above.map(({ point }) => point.length))
  return above.findLast(({ point }) => point.length === longest)
}

/** One line; blanks in paths are written as octal numbers. */
function readMount(line: string): Mount[] {
  const [, , , , point, mountOptions, ...rest] = line.split(' ')
  const dash = rest.indexOf('-')
  const [type, , superOptions] = rest.slice(dash + 1)
  if (point === undefined || type === undefined || dash < 0) return []
  const options = `${mountOptions},${superOptions ?? ''}`.split(',')
  return [{ point: point.replaceAll('\\040', ' '), type, options }]
}
