/**
 * JSON as the database has written it, as UTF-8, which goes out as it is: whoever makes one vouches that it fits its place in the contract. Bytes
 * do not pass through the heap of V8, where texts of many kilobytes cost more to collect than to write.
 */
export class JsonText {
  readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }
}

/** One page of a list, whose items the database has written. */
export interface WrittenPage {
  readonly items: JsonText
  readonly total: number
}
