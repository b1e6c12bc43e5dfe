/** Asks again and again until the answer is neither `undefined` nor `false`; tells at the deadline what was last seen. */
export async function until<T>(what: string, ask: () => Promise<T | undefined | false>, withinMs = 30_000): Promise<T> {
  const deadline = performance.now() + withinMs
  for (;;) {
    let last: unknown
    try {
      const answer = await ask()
      if (answer !== undefined && answer !== false) return answer
    } catch (error) {
      last = error // it may be a daemon that does not listen yet; told at the deadline
    }
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`, { cause: last })
    await pause(5)
  }
}

/** Lets time pass: measuring takes a while. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
