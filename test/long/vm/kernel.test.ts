import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { skippedUnless } from '../../skips.ts'
import { missingForMachine, runInMachine } from './machine.ts'

const missing = missingForMachine()
const NO_MACHINE = skippedUnless(missing === undefined, missing ?? '')

let results: Record<string, unknown>[] = []

describe.skipIf(missing !== undefined)(
  `in a machine with project quotas and control groups of version 2${NO_MACHINE}`,
  () => {
    beforeAll(async () => {
      results = await runInMachine(join(import.meta.dirname, 'program.mjs'))
      process.stderr.write(`${results.map((one) => JSON.stringify(one)).join('\n')}\n`)
    }, 240_000)

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

    it('control groups of version 2 hold memory, processors and processes of a run', () => {
      const of = results.find((one) => one['of'] === 'cgroups')
      expect(of).toMatchObject({
        limits: 'cgroup-v2',
        knobs: { cpu: '50000 100000', pids: '20' },
        hog: { oom: true, signal: 'SIGKILL' },
      })
      expect(of?.['processes']).toBeLessThanOrEqual(20)
      expect(of?.['cpuCores']).toBeGreaterThan(0.3)
      expect(of?.['cpuCores']).toBeLessThan(0.6)
    })
  },
)
