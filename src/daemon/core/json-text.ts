/** JSON as the database has written it, which goes out as it is: whoever makes one vouches that it fits its place in the contract. */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** One page of a list, whose items the database has written. */
export interface WrittenPage {
  readonly items: JsonText
  readonly total: number
}
