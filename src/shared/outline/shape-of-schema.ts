import { z } from 'zod'
import type { Shape, ShapeNode } from './shape.ts'

/**
 * Shapes of several schemas in one table, where parts that they share stand once. A shape knows kinds, fields, choices, limits and
 * expressions. It leaves out what else is asked of a text or of fields together (refinements), and that blanks are taken off: who made the
 * answer has seen to both.
 */
export class ShapeTable {
  readonly #nodes: ShapeNode[] = []
  readonly #places = new Map<z.core.$ZodType, number>()
  readonly #texts = new Map<string, number>()

  /** All nodes so far. */
  get shape(): Shape {
    return this.#nodes
  }

  /** The place of a schema's shape; `undefined` when it has more to do than a shape can say (a conversion). */
  add(schema: z.core.$ZodType): number | undefined {
    try {
      return this.#place(schema)
    } catch (error) {
      if (error instanceof Unshapely) return undefined
      throw error
    }
  }

  #place(schema: z.core.$ZodType): number {
    const known = this.#places.get(schema)
    if (known !== undefined) return known
    const node = this.#node(schema)
    const text = JSON.stringify(node)
    const place = this.#texts.get(text) ?? this.#nodes.push(node) - 1
    this.#texts.set(text, place)
    this.#places.set(schema, place)
    return place
  }

  #node(schema: z.core.$ZodType): ShapeNode {
    if (schema instanceof z.ZodString || schema instanceof z.ZodStringFormat) return stringNode(schema)
    if (schema instanceof z.ZodNumber) return numberNode(schema)
    if (schema instanceof z.ZodArray) return this.#listNode(schema)
    if ((schema._zod.def.checks ?? []).some(({ _zod }) => !isRefinement(_zod.def))) throw new Unshapely()
    if (schema instanceof z.ZodUnknown || schema instanceof z.ZodAny) return { is: 'any' }
    if (schema instanceof z.ZodBoolean && schema.def.coerce !== true) return { is: 'boolean' }
    if (schema instanceof z.ZodNull) return { is: 'one', of: [null] }
    if (schema instanceof z.ZodLiteral) return { is: 'one', of: [...schema.values].map(plain) }
    if (schema instanceof z.ZodEnum) return { is: 'one', of: schema.options.map(plain) }
    if (schema instanceof z.ZodObject) return this.#objectNode(schema)
    if (schema instanceof z.ZodRecord) return this.#mapNode(schema)
    if (schema instanceof z.ZodUnion) return this.#eitherNode(schema)
    // What would be caught is the schema's matter.
    if (schema instanceof z.ZodCatch) return this.#node(schema.def.innerType)
    if (schema instanceof z.ZodNullable) return { is: 'nullable', of: this.#place(schema.def.innerType) }
    if (schema instanceof z.ZodOptional) return this.#optionalNode(schema)
    if (schema instanceof z.ZodDefault)
      return { is: 'default', of: this.#place(schema.def.innerType), value: json(schema.def.defaultValue) }
    throw new Unshapely()
  }

  #listNode(schema: z.ZodArray): ShapeNode {
    const node: { is: 'list'; of: number; min?: number; max?: number } = {
      is: 'list',
      of: this.#place(schema.def.element),
    }
    for (const { _zod } of schema.def.checks ?? []) {
      const def = _zod.def
      if (isCheck(def, 'min_length')) node.min = Math.max(node.min ?? 0, limitOf(def, 'minimum'))
      else if (isCheck(def, 'max_length'))
        node.max = Math.min(node.max ?? Number.MAX_SAFE_INTEGER, limitOf(def, 'maximum'))
      else if (!isRefinement(def)) throw new Unshapely()
    }
    return node
  }

  #objectNode({ def }: z.ZodObject): ShapeNode {
    const fields = Object.entries(def.shape).map(([name, field]) => {
      if (name in {}) throw new Unshapely()
      return [name, this.#place(field)] as const
    })
    return { is: 'object', fields, others: othersOf(def.catchall) }
  }

  #mapNode({ def }: z.ZodRecord): ShapeNode {
    if (def.mode === 'loose') throw new Unshapely()
    if (def.keyType instanceof z.ZodEnum) {
      if (def.partial === true) return { is: 'map', keys: this.#place(def.keyType), of: this.#place(def.valueType) }
      const of = this.#place(def.valueType)
      return { is: 'object', fields: def.keyType.options.map((name) => [String(name), of]), others: 'refused' }
    }
    // Numbers as keys are read twice.
    if (!(def.keyType instanceof z.ZodString)) throw new Unshapely()
    return { is: 'map', keys: this.#place(def.keyType), of: this.#place(def.valueType) }
  }

  #eitherNode({ def }: z.ZodUnion): ShapeNode {
    if (def.inclusive === false && !('discriminator' in def)) throw new Unshapely()
    return { is: 'either', of: def.options.map((option) => this.#place(option)) }
  }

  #optionalNode({ def }: z.ZodOptional): ShapeNode {
    // What is absent is then the default's matter.
    if (def.innerType._zod.optin === 'defaulted') throw new Unshapely()
    return { is: 'optional', of: this.#place(def.innerType) }
  }
}

/** A schema that only itself can check. */
class Unshapely extends Error {
  override readonly name = 'Unshapely'
}

/** Kinds of text that their expression describes wholly; of others it says less than the schema, and is left out. */
const BY_EXPRESSION = ['regex', 'datetime', 'date', 'uuid', 'ipv4', 'email', 'starts_with', 'ends_with']

function stringNode(schema: z.ZodString | z.ZodStringFormat): ShapeNode {
  const node: { is: 'string'; min?: number; max?: number; like?: [string, string][] } = { is: 'string' }
  const checks = (schema.def.checks ?? []).map(({ _zod }) => _zod.def)
  if ('coerce' in schema.def && schema.def.coerce === true) throw new Unshapely()
  for (const def of 'check' in schema.def ? [schema.def, ...checks] : checks) {
    if (isCheck(def, 'min_length')) node.min = Math.max(node.min ?? 0, limitOf(def, 'minimum'))
    else if (isCheck(def, 'max_length')) {
      node.max = Math.min(node.max ?? Number.MAX_SAFE_INTEGER, limitOf(def, 'maximum'))
    } else if (isCheck(def, 'string_format')) node.like = [...(node.like ?? []), ...expressionOf(def)]
    else if (!isRefinement(def)) throw new Unshapely()
  }
  return node
}

function expressionOf(def: object): [string, string][] {
  const format = 'format' in def ? String(def.format) : ''
  const pattern = 'pattern' in def ? def.pattern : undefined
  if (!BY_EXPRESSION.includes(format)) return []
  if (!(pattern instanceof RegExp) || pattern.global || pattern.sticky) throw new Unshapely()
  return [[pattern.source, pattern.flags]]
}

function numberNode(schema: z.ZodNumber): ShapeNode {
  const node: { is: 'number'; whole?: true; min?: number; max?: number; above?: number; below?: number } = {
    is: 'number',
  }
  if (schema.def.coerce === true) throw new Unshapely()
  const checks = (schema.def.checks ?? []).map(({ _zod }) => _zod.def)
  for (const def of 'check' in schema.def ? [schema.def, ...checks] : checks) {
    const inclusive = 'inclusive' in def && def.inclusive === true
    if (isCheck(def, 'number_format') && 'format' in def && def.format === 'safeint') node.whole = true
    else if (isCheck(def, 'greater_than')) {
      const at = inclusive ? 'min' : 'above'
      node[at] = Math.max(node[at] ?? Number.NEGATIVE_INFINITY, limitOf(def, 'value'))
    } else if (isCheck(def, 'less_than')) {
      const at = inclusive ? 'max' : 'below'
      node[at] = Math.min(node[at] ?? Number.POSITIVE_INFINITY, limitOf(def, 'value'))
    } else if (!isRefinement(def)) throw new Unshapely()
  }
  return node
}

/** A refinement, or a change that leaves the kind as it is. */
function isRefinement(def: object): boolean {
  return 'check' in def && (def.check === 'custom' || def.check === 'overwrite')
}

function isCheck(def: object, check: string): boolean {
  if ('when' in def && def.when !== undefined && !['min_length', 'max_length'].includes(check)) return false
  return 'check' in def && def.check === check
}

function limitOf(def: object, name: string): number {
  const value: unknown = Reflect.get(def, name)
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Unshapely()
  return value
}

function othersOf(catchall: z.core.$ZodType | undefined): 'dropped' | 'kept' | 'refused' {
  if (catchall === undefined) return 'dropped'
  if (catchall instanceof z.ZodNever) return 'refused'
  if (catchall instanceof z.ZodUnknown) return 'kept'
  throw new Unshapely()
}

function plain(value: unknown): string | number | boolean | null {
  if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) {
    return value as string | number | boolean | null // by the line above
  }
  throw new Unshapely()
}

/** The value if JSON can say it. */
function json(value: unknown): unknown {
  const text: string | undefined = JSON.stringify(value)
  if (text === undefined) throw new Unshapely()
  return JSON.parse(text)
}
