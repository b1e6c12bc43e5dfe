/** Ends what was opened, newest first, each step even when an earlier one fails; the first failure is thrown at the end. */
export class Cleanup {
  readonly #steps: (() => Promise<void> | void)[] = []
  #done: Promise<void> | undefined

  add(step: () => Promise<void> | void): void {
    this.#steps.push(step)
  }

  run(): Promise<void> {
    this.#done ??= this.#runAll()
    return this.#done
  }

  async #runAll(): Promise<void> {
    const failures: unknown[] = []
    for (const step of this.#steps.reverse()) {
      try {
        await step()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }
}
