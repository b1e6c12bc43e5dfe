/** Runs tasks one after the other in the order in which they were added. */
export class SerialQueue {
  #tail: Promise<unknown> = Promise.resolve()
  #size = 0

  /** How many tasks wait or run. */
  get size(): number {
    return this.#size
  }

  /** The task's own outcome; a failed task does not stop the ones behind it. */
  add<T>(task: () => Promise<T>): Promise<T> {
    this.#size++
    const result = this.#tail.then(task).finally(() => {
      this.#size--
    })
    this.#tail = result.catch(() => {}) // the caller has the rejection; the queue only needs the end
    return result
  }

  /** Resolves when everything that was added so far has ended. */
  async idle(): Promise<void> {
    await this.#tail
  }
}
