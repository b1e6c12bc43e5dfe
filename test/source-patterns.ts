import { parseAst } from 'rolldown/parseAst'

/** An expression that a source file matches text with. */
export interface FoundPattern {
  /** `literal`: `/…/`; `made`: `new RegExp(…)`, or a text given to `match` or `search`; `re2`: RE2JS; `format`: one of zod's. */
  readonly kind: 'literal' | 'made' | 're2' | 'format'
  /** How it stands in the source. */
  readonly text: string
}

/** zod's own formats, each of which is an expression of that package. */
const FORMATS = new Set(
  (
    'email url uuid guid jwt emoji base64 base64url nanoid cuid cuid2 ulid xid ksuid ipv4 ipv6 mac cidrv4 cidrv6 e164 ' +
    'hostname httpUrl datetime date time duration hex hash stringFormat templateLiteral'
  ).split(' '),
)
const MAKERS = new Set(['match', 'matchAll', 'search'])

/** Every expression in a TypeScript source, by its syntax tree. */
export function patternsIn(file: string, text: string): FoundPattern[] {
  const found: FoundPattern[] = []
  visit(parseAst(text, { lang: file.endsWith('x') ? 'tsx' : 'ts' }, file), (node) => {
    const pattern = patternOf(node, text)
    if (pattern !== undefined) found.push(pattern)
  })
  return found
}

type Node = Readonly<Record<string, unknown>>

function patternOf(node: Node, text: string): FoundPattern | undefined {
  const source = text.slice(Number(node['start']), Number(node['end']))
  if (node['type'] === 'Literal' && isNode(node['regex'])) return { kind: 'literal', text: source }
  if (node['type'] !== 'CallExpression' && node['type'] !== 'NewExpression') return undefined
  const { callee } = node
  if (!isNode(callee)) return undefined
  if (callee['name'] === 'RegExp') return { kind: 'made', text: source }
  const { object, property } = callee
  if (!isNode(object) || !isNode(property)) return undefined
  const name = String(property['name'])
  if (object['name'] === 'RE2JS') return { kind: 're2', text: source }
  if (isZod(object) && FORMATS.has(name)) return { kind: 'format', text: source }
  const [first] = Array.isArray(node['arguments']) ? node['arguments'] : []
  const isText = isNode(first) && (typeof first['value'] === 'string' || first['type'] === 'TemplateLiteral')
  return MAKERS.has(name) && isText ? { kind: 'made', text: source } : undefined
}

/** `z` and `z.iso`. */
function isZod(node: Node): boolean {
  const { object, property } = node
  return (
    node['name'] === 'z' || (isNode(object) && object['name'] === 'z' && isNode(property) && property['name'] === 'iso')
  )
}

function visit(value: unknown, look: (node: Node) => void): void {
  if (Array.isArray(value)) for (const item of value) visit(item, look)
  else if (isNode(value)) {
    if (typeof value['type'] === 'string') look(value)
    for (const [key, item] of Object.entries(value)) if (key !== 'regex') visit(item, look)
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !(value instanceof RegExp)
}
