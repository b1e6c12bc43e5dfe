// @module-tag long
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { enforcedMemoryMb } from '../../../src/agent/holder/memory-limit.ts'
import { skippedUnless } from '../../skips.ts'
import { missingForMachine, runInMachine } from './machine.ts'

const missing = missingForMachine()
const NO_MACHINE = skippedUnless(missing === undefined, missing ?? '')

const MIB = 1024 * 1024

let results: Record<string, unknown>[] = []

describe.skipIf(missing !== undefined)(
  `in a machine with project quotas and control groups of version 2${NO_MACHINE}`,
  () => {
    beforeAll(async () => {
      results = await runInMachine(join(import.meta.dirname, 'program.mjs'))
      process.stderr.write(`${results.map((one) => JSON.stringify(one)).join('\n')}\n`)
    }, 400_000)

    it.each(['ext4', 'xfs'])(
      '%s holds a server to its limit, follows an edit, and takes over a folder of the time before',
      (type) => {
        const of = results.find((one) => one['of'] === type)
        expect(of).toMatchObject({
          hold: { enforced: 'kernel' },
          ended: 1,
          running: { enforced: 'watch', reason: 'its files are taken over at its next start' },
          taken: { enforced: 'kernel' },
          ids: 2,
          left: ['old'],
        })
        for (const [field, limit] of [
          ['atLimit', 20],
          ['usedMb', 20],
          ['enlarged', 50],
          ['oldMb', 20],
        ] as const) {
          expect(of?.[field]).toBeGreaterThan(limit - 3)
          expect(of?.[field]).toBeLessThanOrEqual(limit)
        }
      },
    )

    it('control groups of version 2 hold memory, processors, processes and disk time of a run, and are gone after it', () => {
      const of = results.find((one) => one['of'] === 'cgroups')
      expect(of, JSON.stringify(results.at(-1))).toMatchObject({
        limits: 'cgroup-v2',
        reason: null,
        cpuSets: true,
        isInGroupOfItsOwn: true,
        atStart: { memory: String(enforcedMemoryMb(64) * MIB), cpu: '50000 100000', pids: '20', cpus: '1' },
        killed: { code: null, signal: 'SIGKILL', oom: false },
        isGone: true,
      })
      // Which weights there are depends on the kernel's scheduler of disks.
      const io = (of?.['atStart'] as { io: string | null } | undefined)?.io
      if (of?.['ioWeights'] === true) expect(io).toContain('5001')
      else expect(io).toBeNull()
      expect(of?.['halfCore']).toBeGreaterThan(0.35)
      expect(of?.['halfCore']).toBeLessThan(0.6)
    })

    it('what the kernel ends for its memory is said as such, by its own count, and nothing else is', () => {
      const of = results.find((one) => one['of'] === 'cgroups')
      expect(of).toMatchObject({
        hog: { signal: 'SIGKILL', oom: true },
        plain: { signal: 'SIGKILL', oom: false },
      })
      expect(of?.['oomEvents']).toBeGreaterThan(0)
    })

    it('the limits of what runs change at once, and not to less than it uses', () => {
      const of = results.find((one) => one['of'] === 'cgroups')
      expect(of).toMatchObject({
        grown: null,
        fewer: null,
        afterGrowth: { memory: String(enforcedMemoryMb(128) * MIB), cpu: '150000 100000', pids: '20', cpus: '1' },
        quarter: null,
        tooSmall: expect.stringMatching(/uses \d+ MiB of memory now, more than it is to have \(64 MiB\)/),
        kept: { memory: String(enforcedMemoryMb(300) * MIB), cpu: '50000 100000' },
        full: { signal: 'SIGKILL', oom: false },
      })
      expect(of?.['refusals']).toBeGreaterThan(0)
      expect(of?.['tasks']).toBeLessThanOrEqual(20)
      expect(of?.['processes']).toBeLessThanOrEqual(20)
      expect(of?.['quarterCore']).toBeGreaterThan(0.15)
      expect(of?.['quarterCore']).toBeLessThan(0.33)
    })
  },
)
