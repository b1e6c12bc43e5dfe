import { Composer, type CST, type Document, isAlias, isMap, isScalar, isSeq, Lexer, type Node, Parser } from 'yaml'
import { isDeeperThan, MOST_BODY_DEPTH } from '../kernel/json-depth.ts'

/** Larger than any egg with its icon. */
export const MOST_DOCUMENT_BYTES = 1024 * 1024
/** What the YAML parser may be handed; an egg of 200 variables has a tenth of it. */
const MOST_LEXEMES = 60_000
/** Each level of a YAML document is at most two of its parser's. */
const MOST_PARSER_DEPTH = 2 * MOST_BODY_DEPTH
const MOST_ALIASES = 100
/** With what aliases stand for. */
const MOST_VALUES = 40_000

/** A document that is not read; the message is the end of a sentence about it, as in `is not valid JSON: …`. */
export class DocumentProblem extends Error {
  override readonly name = 'DocumentProblem'
}

/** What a document holds, as JSON can say it. */
export interface ReadDocument {
  readonly value: Readonly<Record<string, unknown>>
  readonly syntax: 'json' | 'yaml'
}

/**
 * Reads a document of JSON or YAML, whichever it is. Bounded in size, depth, aliases and work; tags, keys that stand twice and
 * the key `__proto__` are refused. A YAML scalar that other programs read as a number and would write in another way (`1.10`,
 * `0x1F`) stays the text that it is. Throws a {@link DocumentProblem} for anything that is not one object.
 */
export function readDocument(text: string): ReadDocument {
  if (Buffer.byteLength(text) > MOST_DOCUMENT_BYTES) {
    throw new DocumentProblem(`is larger than ${MOST_DOCUMENT_BYTES / 1024} KiB`)
  }
  const plain = text.startsWith('\uFEFF') ? text.slice(1) : text
  const syntax = /^\s*[{[]/.test(plain.slice(0, 1000)) ? 'json' : 'yaml'
  const value = syntax === 'json' ? readJson(plain) : readYaml(plain)
  if (!isObject(value)) throw new DocumentProblem('must hold one object')
  return { value, syntax }
}

/** Reads one value of JSON within the same bounds. Throws a {@link DocumentProblem}. */
export function readJson(text: string): unknown {
  if (isDeeperThan(text, MOST_BODY_DEPTH)) throw tooDeep()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new DocumentProblem(`is not valid JSON: ${reasonOf(error)}`)
  }
  count(value, { left: MOST_VALUES })
  return value
}

/** Whether it is an object with named fields. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function count(value: unknown, budget: { left: number }): void {
  if (--budget.left < 0) throw tooMuch()
  if (Array.isArray(value)) for (const item of value) count(item, budget)
  else if (isObject(value)) {
    if (Object.hasOwn(value, '__proto__')) throw protoKey()
    for (const item of Object.values(value)) count(item, budget)
  }
}

function readYaml(text: string): unknown {
  const [document, ...others] = compose(text)
  if (document === undefined) return null
  if (others.length > 0) throw new DocumentProblem('must be one YAML document')
  const [error] = document.errors
  // The parser's own message goes on with the lines around the place.
  if (error !== undefined) throw new DocumentProblem(`is not valid YAML: ${reasonOf(error)}`)
  return new Values(document).of(document.contents, 0)
}

function compose(text: string): Document.Parsed[] {
  try {
    return [...new Composer({ schema: 'core', version: '1.2', uniqueKeys: false }).compose(boundedTokens(text))]
  } catch (error) {
    if (error instanceof DocumentProblem) throw error
    throw new DocumentProblem(`is not valid YAML: ${reasonOf(error)}`)
  }
}

/** The parser looks ahead for nothing, so that what is too deep or too long is met before it is composed. */
function* boundedTokens(text: string): Generator<CST.Token> {
  const parser = new Parser()
  let lexemes = 0
  for (const lexeme of new Lexer().lex(text)) {
    if (++lexemes > MOST_LEXEMES) throw tooMuch()
    yield* parser.next(lexeme)
    if (parser.stack.length > MOST_PARSER_DEPTH) throw tooDeep()
  }
  yield* parser.end()
}

class Values {
  readonly #document: Document.Parsed
  #left = MOST_VALUES
  #aliases = MOST_ALIASES

  constructor(document: Document.Parsed) {
    this.#document = document
  }

  of(node: Node | null | undefined, depth: number): unknown {
    if (--this.#left < 0) throw tooMuch()
    if (depth > MOST_BODY_DEPTH) throw tooDeep()
    if (node == null) return null
    if (isAlias(node)) {
      if (--this.#aliases < 0) throw new DocumentProblem(`has more than ${MOST_ALIASES} aliases`)
      return this.of(node.resolve(this.#document), depth + 1)
    }
    if (node.tag !== undefined && !node.tag.startsWith('tag:yaml.org,2002:')) {
      throw new DocumentProblem(`has the tag ${node.tag.slice(0, 100)}, which is not read`)
    }
    if (isMap(node)) return this.#map(node.items, depth)
    if (isSeq(node)) return node.items.map((item) => this.of(item as Node, depth + 1)) // a parsed list holds nodes
    return isScalar(node) ? scalar(node.value, node.source) : null
  }

  #map(items: readonly { readonly key: unknown; readonly value: unknown }[], depth: number): Record<string, unknown> {
    const fields = new Map<string, unknown>()
    for (const { key, value } of items) {
      // The parts of a parsed pair are nodes, or null where nothing stands.
      const name = isScalar(key) ? (key.source ?? String(key.value ?? '')) : undefined
      if (name === undefined) throw new DocumentProblem('has a key that is no text')
      if (name === '__proto__') throw protoKey()
      if (fields.has(name)) throw new DocumentProblem(`has the key ${name.slice(0, 100)} twice`)
      fields.set(name, this.of(value as Node | null, depth + 1))
    }
    return Object.fromEntries(fields)
  }
}

/** A number or truth that is written as JSON writes it is one; in any other writing it is the text that stands there. */
function scalar(value: unknown, source: string | undefined): unknown {
  if (value === null || typeof value === 'string') return value
  return source === undefined || String(value) === source ? value : source
}

function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return (text.split('\n')[0] ?? '').slice(0, 300)
}

function tooDeep(): DocumentProblem {
  return new DocumentProblem(`is nested more than ${MOST_BODY_DEPTH} levels deep`)
}

function tooMuch(): DocumentProblem {
  return new DocumentProblem('holds too many values')
}

function protoKey(): DocumentProblem {
  return new DocumentProblem('has a key named __proto__')
}
