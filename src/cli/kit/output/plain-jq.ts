import {
  asTsv,
  compared,
  type Function1,
  field as fieldOf,
  functions,
  items,
  join,
  NotPlain,
  plain,
  printed,
  single,
  sortBy,
} from './plain-values.ts'

/** A step of an expression: from one value to any number of them. */
type Step = (value: unknown) => readonly unknown[]

/**
 * The lines that jq prints for an expression of the plainest kind: paths (`.a.b[0]`, `.[]`), pipes, commas, `select` by a comparison, `map`, lists,
 * objects, texts with paths in them, and functions like `length`, `sort` and `join`. `undefined` where that is not all there is to it, or where jq would do anything but print: jq itself is for that.
 * To load it takes longer than all else that a command does.
 */
export function plainJq(value: unknown, expression: string): readonly string[] | undefined {
  try {
    const reader = new Reader(expression)
    const step = pipe(reader)
    if (!reader.isAtEnd()) return undefined
    return step(value === undefined ? null : value).map(printed)
  } catch (error) {
    if (error instanceof NotPlain) return undefined
    throw error
  }
}

/** The words and signs of an expression, one after the other. */
class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    // So deep is no expression that a person writes.
    if (text.length > 1000) throw new NotPlain()
    this.#text = text
  }

  /** Whether it goes on with this sign, blanks before it aside; then it is behind it. */
  takes(sign: string): boolean {
    this.#skipBlanks()
    if (!this.#text.startsWith(sign, this.#at)) return false
    this.#at += sign.length
    return true
  }

  /** The same for what comes without a blank before it. */
  takesNext(sign: string): boolean {
    if (!this.#text.startsWith(sign, this.#at)) return false
    this.#at += sign.length
    return true
  }

  needs(sign: string): void {
    if (!this.takes(sign)) throw new NotPlain()
  }

  /** What a sticky expression matches here. */
  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const text = pattern.exec(this.#text)?.[0]
    this.#at += text?.length ?? 0
    return text
  }

  matchAfterBlanks(pattern: RegExp): string | undefined {
    this.#skipBlanks()
    return this.match(pattern)
  }

  isAtEnd(): boolean {
    this.#skipBlanks()
    return this.#at === this.#text.length
  }

  #skipBlanks(): void {
    while (this.#text[this.#at] === ' ') this.#at += 1
  }
}

function pipe(reader: Reader): Step {
  const steps = [comma(reader)]
  while (reader.takes('|')) steps.push(comma(reader))
  return (value) => steps.reduce<readonly unknown[]>((values, step) => values.flatMap(step), [value])
}

function comma(reader: Reader): Step {
  const steps = [term(reader)]
  while (reader.takes(',')) steps.push(term(reader))
  return (value) => steps.flatMap((step) => step(value))
}

function term(reader: Reader): Step {
  const steps = [primary(reader)]
  for (let next = suffix(reader); next !== undefined; next = suffix(reader)) steps.push(next)
  return (value) => steps.reduce<readonly unknown[]>((values, step) => values.flatMap(step), [value])
}

const NAME = /[A-Za-z_][A-Za-z0-9_]*/y
/** Of characters that mean themselves, in jq and here. */
const TEXT = /"[ !#-[\]-~]*"/y
const IN_TEXT = /[ !#-[\]-~]*/y

function primary(reader: Reader): Step {
  if (reader.takes('.')) return firstSuffix(reader)
  if (reader.takes('[')) return list(reader)
  if (reader.takes('{')) return object(reader)
  if (reader.takes('(')) return closed(reader, ')')
  if (reader.takes('"')) return text(reader)
  if (reader.takes('@tsv')) return one(asTsv)
  const word = reader.match(NAME) ?? ''
  const known = functions.get(word)
  if (known !== undefined) return one(known)
  if (word === 'sort_by' && reader.takesNext('(')) {
    const step = path(reader)
    reader.needs(')')
    return one((value) => sortBy(value, (of) => single(step(of))))
  }
  if (word === 'join' && reader.takesNext('(')) {
    const between = reader.matchAfterBlanks(TEXT)?.slice(1, -1)
    if (between === undefined) throw new NotPlain()
    reader.needs(')')
    return one((value) => join(value, between))
  }
  if (word === 'select' && reader.takesNext('(')) return select(reader)
  if (word === 'map' && reader.takesNext('(')) {
    const step = closed(reader, ')')
    return (value) => [items(value).flatMap(step)]
  }
  throw new NotPlain()
}

function one(of: Function1): Step {
  return (value) => [of(value)]
}

/** A text behind its first quote, with the values of paths in it: `"\\(.name) runs"`. */
function text(reader: Reader): Step {
  const pieces: Step[] = []
  for (;;) {
    const plainText = reader.match(IN_TEXT) ?? ''
    pieces.push(() => [plainText])
    if (reader.takesNext('"')) return (value) => [pieces.map((piece) => printed(single(piece(value)))).join('')]
    if (!reader.takesNext('\\(')) throw new NotPlain()
    pieces.push(path(reader))
    reader.needs(')')
  }
}

/** What follows the dot that begins a path; nothing is the value itself. */
function firstSuffix(reader: Reader): Step {
  const name = reader.match(NAME) ?? textIn(reader)
  if (name !== undefined) return field(name)
  return reader.takesNext('[') ? bracket(reader) : (value) => [value]
}

function suffix(reader: Reader): Step | undefined {
  if (reader.takesNext('[')) return bracket(reader)
  if (!reader.takesNext('.')) return undefined
  const name = reader.match(NAME) ?? textIn(reader)
  if (name !== undefined) return field(name)
  if (reader.takesNext('[')) return bracket(reader)
  throw new NotPlain()
}

function bracket(reader: Reader): Step {
  if (reader.takesNext(']')) return items
  const text = textIn(reader)
  const place = text === undefined ? reader.match(/-?\d{1,9}/y) : undefined
  if (!reader.takesNext(']')) throw new NotPlain()
  if (text !== undefined) return field(text)
  if (place === undefined) throw new NotPlain()
  return (value) => {
    if (value === null) return [null]
    return [plain(items(value).at(Number(place)))]
  }
}

function list(reader: Reader): Step {
  if (reader.takes(']')) return () => [[]]
  const step = closed(reader, ']')
  return (value) => [[...step(value)]]
}

function object(reader: Reader): Step {
  const fields: (readonly [string, Step])[] = []
  do {
    const name = reader.matchAfterBlanks(NAME) ?? textIn(reader)
    if (name === undefined) throw new NotPlain()
    fields.push([name, reader.takes(':') ? path(reader) : field(name)])
  } while (reader.takes(','))
  reader.needs('}')
  return (value) => {
    const made = new Map<string, unknown>()
    for (const [name, step] of fields) made.set(name, single(step(value)))
    return [Object.fromEntries(made)]
  }
}

/** `select(.a.b)`, or by a comparison of that with a text, a number, true, false or null. */
function select(reader: Reader): Step {
  const subject = path(reader)
  const sign = reader.matchAfterBlanks(/==|!=|<=|>=|<|>/y)
  const wanted = sign === undefined ? undefined : literal(reader)
  reader.needs(')')
  return (value) => {
    const found = single(subject(value))
    const holds = sign === undefined ? found !== null && found !== false : compared(found, sign, wanted)
    return holds ? [value] : []
  }
}

/** A path that leads to one value. */
function path(reader: Reader): Step {
  reader.needs('.')
  const steps = [firstSuffix(reader)]
  for (let next = suffix(reader); next !== undefined; next = suffix(reader)) steps.push(next)
  return (value) => steps.reduce<readonly unknown[]>((values, step) => values.flatMap(step), [value])
}

function closed(reader: Reader, end: string): Step {
  const step = pipe(reader)
  reader.needs(end)
  return step
}

function textIn(reader: Reader): string | undefined {
  return reader.match(TEXT)?.slice(1, -1)
}

function literal(reader: Reader): unknown {
  const word = reader.matchAfterBlanks(/true\b|false\b|null\b|-?(?:0|[1-9]\d{0,14})(?![\d.eE])/y)
  if (word !== undefined) return JSON.parse(word)
  const text = textIn(reader)
  if (text === undefined) throw new NotPlain()
  return text
}

function field(name: string): Step {
  return one((value) => fieldOf(value, name))
}
