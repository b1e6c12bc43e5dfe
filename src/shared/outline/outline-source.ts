import type { Endpoint, StreamEndpoint } from '../kernel/contract.ts'
import type { OutlineFields } from './endpoint-outline.ts'
import { ShapeTable } from './shape-of-schema.ts'

/** Where the modules are that an outline needs, as specifiers. */
export interface OutlinePlaces {
  /** The module of the contract itself. */
  readonly contract: string
  readonly outline: string
  readonly endpoints: string
}

/**
 * The text of a module with the exports of a module of the contract, for who asks and does not answer: endpoints as outlines and plain
 * values as they are, so that nothing of the contract is loaded. All else comes from the contract when it is asked for.
 */
export function outlineSource(exports: Readonly<Record<string, unknown>>, places: OutlinePlaces): string {
  const shapes = new ShapeTable()
  const lines: string[] = []
  const others: string[] = []
  for (const [name, value] of Object.entries(exports)) {
    if (isKind(value, 'endpoint')) lines.push(endpointLine(name, value as Endpoint, shapes))
    else if (isKind(value, 'stream')) lines.push(outlineLine(name, fieldsOf(value as StreamEndpoint, []), undefined))
    else if (isPlain(value)) lines.push(`export const ${name} = ${JSON.stringify(value)}`)
    else others.push(name)
  }
  return [
    `import { outline, shapeTable } from ${JSON.stringify(places.outline)}`,
    `const table = /*#__PURE__*/ shapeTable(${JSON.stringify(JSON.stringify(shapes.shape))})`,
    `const whole = (id) => async () => (await import(${JSON.stringify(places.endpoints)})).endpoints.find((one) => one.id === id)`,
    ...lines,
    ...(others.length === 0 ? [] : [`export { ${others.join(', ')} } from ${JSON.stringify(places.contract)}`]),
    '',
  ].join('\n')
}

function endpointLine(name: string, endpoint: Endpoint, shapes: ShapeTable): string {
  const fields = fieldsOf(endpoint, ['method', 'status', 'answers', 'accepts', 'paged', 'long'])
  return outlineLine(name, fields, endpoint.answers === 'data' ? shapes.add(endpoint.response) : undefined)
}

function outlineLine(name: string, fields: OutlineFields, root: number | undefined): string {
  const answer = root === undefined ? 'null' : `{ table, root: ${root} }`
  return `export const ${name} = /*#__PURE__*/ outline(${JSON.stringify(fields)}, ${answer}, whole(${JSON.stringify(fields['id'])}))`
}

function fieldsOf<E extends Endpoint | StreamEndpoint>(one: E, names: readonly (keyof E & string)[]): OutlineFields {
  const more = names.map((name) => [name, one[name] as string | number | boolean]) // what endpoints say in a word
  return { kind: one.kind, id: one.id, path: one.path, ...Object.fromEntries(more) }
}

function isKind(value: unknown, kind: string): boolean {
  return typeof value === 'object' && value !== null && 'kind' in value && 'id' in value && value.kind === kind
}

/** Whether JSON says the same. */
function isPlain(value: unknown): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object') return false
  if (Array.isArray(value)) return value.every(isPlain)
  return Object.getPrototypeOf(value) === Object.prototype && Object.values(value).every(isPlain)
}
