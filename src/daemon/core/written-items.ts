/**
 * Items of a list as the database has written them, each as JSON in UTF-8, which goes out as it is: whoever makes them vouches that they fit their place in
 * the contract. Bytes do not pass through the heap of V8, where texts of many kilobytes cost more to collect than to write.
 */
export class WrittenItems {
  readonly items: readonly Uint8Array[]

  constructor(items: readonly Uint8Array[]) {
    this.items = items
  }
}

/** One page of a list, whose items the database has written. */
export interface WrittenPage {
  readonly items: WrittenItems
  readonly total: number
}
