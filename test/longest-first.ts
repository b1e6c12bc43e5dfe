import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { ROOT } from './module-graph.ts'

/** The files that take 20 s and more of a quiet machine with two cores, the longest first; one that is gone or quicker does no harm. */
const LONGEST = [
  'test/contract/drive-through.test.ts',
  'test/cli/every-command.test.ts',
  'test/agent/life.test.ts',
  'test/cli/exit-codes.test.ts',
  'test/e2e/transfers.test.ts',
  'test/daemon/migration/migration.test.ts',
  'test/cli/tui/screen.test.ts',
  'test/security/file-jail.test.ts',
  'test/contract/junk.test.ts',
  'test/daemon/admin-events.test.ts',
]

/** Starts the longest files first, so that none of them runs alone at the end; vitest itself goes by their sizes where it has no times. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.indexOf(relative(ROOT, moduleId))
      return at === -1 ? LONGEST.length : at
    }
    return (await super.sort(files)).sort((one, other) => place(one) - place(other))
  }
}
