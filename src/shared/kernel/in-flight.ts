interface Box<V> {
  value: V | undefined
}

/**
 * A map for what comes and goes all the time, such as requests that wait for their answers. A map of V8 gets another table as it grows and shrinks, and
 * each former table keeps what was in it and leads to the next one: once one of them counts as old, all that pass later are kept until
 * all of the heap is collected, with their buffers. Here tables hold boxes, which are emptied.
 */
export class InFlight<K, V extends object> {
  readonly #boxes = new Map<K, Box<V>>()

  get(key: K): V | undefined {
    return this.#boxes.get(key)?.value
  }

  set(key: K, value: V): void {
    const known = this.#boxes.get(key)
    if (known === undefined) this.#boxes.set(key, { value })
    else known.value = value
  }

  delete(key: K): boolean {
    const box = this.#boxes.get(key)
    if (box === undefined) return false
    box.value = undefined
    return this.#boxes.delete(key)
  }

  /** All that are there now, in the order in which their keys came. */
  values(): V[] {
    return [...this.#boxes.values()].flatMap(({ value }) => value ?? [])
  }
}
