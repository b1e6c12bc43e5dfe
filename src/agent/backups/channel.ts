/** Hands pieces from one who makes them to one who reads them, one at a time. */
export class Channel {
  #piece: Buffer | undefined
  #isEnded = false
  #failure: { readonly error: unknown } | undefined
  #wake: (() => void)[] = []

  /** Resolves when the reader has taken it; rejects when there is none any more. */
  async put(piece: Buffer): Promise<void> {
    this.#piece = piece
    this.#call()
    while (this.#piece !== undefined && this.#failure === undefined) await this.#change()
    if (this.#failure !== undefined) throw this.#failure.error
  }

  end(): void {
    this.#isEnded = true
    this.#call()
  }

  /** Whoever waits on either side gets the error. */
  fail(error: unknown): void {
    this.#failure ??= { error }
    this.#call()
  }

  async *read(): AsyncGenerator<Buffer> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure.error
      const piece = this.#piece
      if (piece !== undefined) {
        yield piece
        this.#piece = undefined
        this.#call()
      } else if (this.#isEnded) return
      else await this.#change()
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve))
  }

  #call(): void {
    const all = this.#wake
    this.#wake = []
    for (const wake of all) wake()
  }
}
