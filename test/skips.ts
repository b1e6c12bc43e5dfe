/** What a title ends with when its test is skipped: why. Empty where it runs. */
export function skippedUnless(runs: boolean, need: string): string {
  return runs ? '' : ` (skipped: needs ${need})`
}
