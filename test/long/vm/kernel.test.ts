// @module-tag long
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { skippedUnless } from '../../skips.ts'
import { missingForMachine, runInMachine } from './machine.ts'

const missing = missingForMachine()
const NO_MACHINE = skippedUnless(missing === undefined, missing ?? '')

let results: Record<string, unknown>[] = []

describe.skipIf(missing !== undefined)(`in a machine with project quotas${NO_MACHINE}`, () => {
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
})
