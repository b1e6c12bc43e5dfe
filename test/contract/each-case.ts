/** So many cases are under way at a time: while one waits for the disk another one is answered. */
const AT_ONCE = 8
const MOST_SHOWN = 20

/** For the test around a loop: a busy machine takes minutes for the longest. */
export const LOOP = { timeout: 240_000 } as const

/** What a loop over the contract goes through: an endpoint or anything else with a name that a failure begins with. */
interface Named {
  readonly id: string
}

/**
 * Checks every case, several at a time, in one test: a test for each would cost more than most checks. The cases must not
 * depend on each other. Fails with every case that failed, by its id.
 */
export async function eachCase<T extends Named>(
  cases: readonly T[],
  check: (one: T) => Promise<unknown> | unknown,
  atOnce = AT_ONCE,
): Promise<void> {
  if (cases.length === 0) throw new Error('there is no case, so nothing was checked')
  const failures: { readonly id: string; readonly error: unknown }[] = []
  const left = cases.values()
  const worker = async (): Promise<void> => {
    for (const one of left) {
      try {
        await check(one)
      } catch (error) {
        failures.push({ id: one.id, error })
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  if (failures.length === 0) return
  const shown = failures.slice(0, MOST_SHOWN).map(({ id, error }) => `- ${id}: ${textOf(error)}`)
  throw new Error(`${failures.length} of ${cases.length} cases failed\n${shown.join('\n')}`, {
    cause: failures[0]?.error,
  })
}

/** The message, what was found in the place of what, and the line of the test that found it. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const found = 'actual' in error ? `, found ${brief(error.actual)}` : ''
  const expected = 'expected' in error ? `, expected ${brief(error.expected)}` : ''
  const line = error.stack?.split('\n').find((one) => one.includes('.test.ts'))
  return `${error.message}${found}${expected}${line === undefined ? '' : `\n ${line}`}`
}

function brief(value: unknown): string {
  return `${JSON.stringify(value)}`.slice(0, 300)
}
