import { Composer, type CST, type Document, isAlias, isMap, isScalar, isSeq, Lexer, Parser } from 'yaml'
import { ConfigFileProblem, MOST_CONFIG_DEPTH } from './config-file-problem.ts'
import { replacement, type Setting, textOfValue } from './setting.ts'
import { typedValue } from './typed-value.ts'
import { EVERY, type Step, stepsOf } from './value-path.ts'

/** Each level of a document is at most two of its parser's. */
const MOST_DEPTH = 2 * MOST_CONFIG_DEPTH

/** Sets values of a YAML file. Comments, order and what is not named stay; absent maps and keys are added. */
export function changeYaml(text: string, settings: readonly Setting[]): string {
  const [document, ...others] = parsed(text)
  // Comments alone are no document, and stay before what is set.
  if (document === undefined)
    return changeYaml(`${text}${text === '' || text.endsWith('\n') ? '' : '\n'}{}\n`, settings)
  // A map that holds nothing is filled line by line, as people write one.
  if (isMap(document.contents) && document.contents.items.length === 0) document.contents.flow = false
  if (others.length > 0) throw new ConfigFileProblem('holds several YAML documents')
  const [error] = document.errors
  if (error !== undefined)
    throw new ConfigFileProblem(`is not valid YAML: ${(error.message.split('\n')[0] ?? '').slice(0, 200)}`)
  refuseTwins(document.contents)
  for (const setting of settings) {
    for (const place of placesOf(document, stepsOf(setting.key))) change(document, place, setting)
  }
  return document.toString({ lineWidth: 0 })
}

/** The parser looks ahead for nothing, so that what is too deep is met before the stack ends, which could end the whole agent. */
function parsed(text: string): Document.Parsed[] {
  // Whether keys stand twice is looked at below: the library compares each with each.
  const composer = new Composer({ schema: 'core', keepSourceTokens: false, uniqueKeys: false })
  return [...composer.compose(boundedTokens(text))]
}

function* boundedTokens(text: string): Generator<CST.Token> {
  const parser = new Parser()
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme)
    if (parser.stack.length > MOST_DEPTH) throw new ConfigFileProblem('is nested too deep')
  }
  yield* parser.end()
}

function refuseTwins(node: unknown): void {
  if (isSeq(node)) node.items.forEach(refuseTwins)
  if (!isMap(node)) return
  const seen = new Set<unknown>()
  for (const { key, value } of node.items) {
    const name = isScalar(key) ? key.value : key
    if (seen.has(name)) throw new ConfigFileProblem(`has the key ${String(name).slice(0, 100)} twice`)
    seen.add(name)
    refuseTwins(value)
  }
}

/** A place in a document; a part of it is the key that stands there, which may be a number, a truth or nothing. */
type Place = readonly unknown[]

/** The places that a path with wildcards names in this document. */
function placesOf(document: Document, steps: readonly Step[]): Place[] {
  let places: Place[] = [[]]
  for (const step of steps) {
    places = places.flatMap((place) => {
      const node = nodeAt(document, place)
      if (step !== EVERY) return [[...place, keyOf(node, step)]]
      if (isSeq(node)) return node.items.map((_, index) => [...place, index])
      if (!isMap(node)) return []
      return node.items.map(({ key }) => [...place, isScalar(key) ? key.value : key])
    })
  }
  return places
}

function nodeAt(document: Document, place: Place): unknown {
  return place.length === 0 ? document.contents : document.getIn(place, true)
}

/** Paths name keys by their texts: `1` is the key 1 where that stands. */
function keyOf(node: unknown, step: string | number): unknown {
  if (!isMap(node) || node.has(step)) return step
  const named = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step))
  return isScalar(named?.key) ? named.key.value : step
}

function change(document: Document, place: Place, setting: Setting): void {
  for (let length = 0; length < place.length; length++) {
    refuseHolder(nodeAt(document, place.slice(0, length)), place[length], setting)
  }
  const current: unknown = document.getIn(place)
  const value = replacement(setting, textOfValue(current))
  if (value === undefined) return
  for (let length = 0; length < place.length; length++) {
    const above = place.slice(0, length)
    if (!isNothing(nodeAt(document, above))) continue
    const made = document.createNode(typeof place[length] === 'number' ? [] : {})
    if (length === 0) document.contents = made
    else document.setIn(above, made)
  }
  document.setIn(place, typedValue(value, current))
}

/** Refuses what the next part of a path cannot go into. */
function refuseHolder(node: unknown, next: unknown, { key }: Setting): void {
  if (isAlias(node)) throw new ConfigFileProblem(`has an alias where ${key} needs a map or a list`)
  if (isScalar(node) && !isNothing(node))
    throw new ConfigFileProblem(`has a single value where ${key} needs a map or a list`)
  const mostItems = isSeq(node) ? node.items.length : isMap(node) ? Number.POSITIVE_INFINITY : 0
  const isPlace = isSeq(node) || typeof next === 'number' ? Number(next) <= mostItems : true
  if (!isPlace) throw new ConfigFileProblem(`has no place ${key}`)
}

/** Where nothing stands behind a key, or in a document. */
function isNothing(node: unknown): boolean {
  return node === null || (isScalar(node) && node.value === null)
}
