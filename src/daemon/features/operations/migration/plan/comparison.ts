import type { BuiltPlan, PlannedStep } from './plan.ts'

/** Actions that a comparison has in place of those that bring files. */
const COMPARES_FILES = 'compare_files'

/**
 * Turns a plan into one that brings nothing: what is to be brought counts as a difference, and the files of servers that are here are
 * compared. `ofJob`: the migration that has brought them.
 */
export function comparing({ plan, steps }: BuiltPlan, ofJob: string): BuiltPlan {
  const compared: PlannedStep[] = []
  for (const step of steps) {
    const { action, skipped } = step
    if (action === 'write_report') compared.push({ ...step, follows: compared.map(({ id }) => id) })
    else if (action.startsWith('import_')) {
      const needs = { needs: [], follows: [] }
      if (skipped !== null) compared.push({ ...step, ...needs })
      else compared.push({ ...step, ...needs, failed: { code: 'DIFFERENT', text: differenceOf(step) } })
    } else if (action === 'transfer_files') {
      const input = { ...step.input, ofJob }
      compared.push({ ...step, action: COMPARES_FILES, needs: [], follows: [], input })
    }
  }
  return { plan, steps: compared }
}

function differenceOf({ targetId }: PlannedStep): string {
  return targetId === null
    ? 'It is on the source and not here'
    : 'It is not on the source as it was when it was brought'
}
