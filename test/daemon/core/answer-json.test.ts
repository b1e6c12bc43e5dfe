import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { frozen } from '../../../src/daemon/core/frozen.ts'
import { compileJson } from '../../../src/daemon/http/answer-json.ts'
import { JsonBytes } from '../../../src/daemon/http/json-bytes.ts'
import { endpoints } from '../../../src/shared/endpoints.ts'

const Tagged = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('text'), text: z.string() }),
  z.object({ kind: z.enum(['sum', 'count']), value: z.number() }),
])

/** What an answer is made of, with values that fit and others that nearly do. */
const shapes = {
  'a string': z.string(),
  'a trimmed string': z.string().trim(),
  'a string of a length': z.string().min(0).max(10_000),
  'a time': z.iso.datetime({ precision: 3 }),
  'a URL': z.url(),
  'a number': z.number(),
  'an integer': z.int(),
  'a coerced number': z.coerce.number(),
  'a literal': z.literal(['a', 1, null]),
  'an enumeration': z.enum(['up', 'down']),
  'a choice of scalars': z.union([z.string(), z.number(), z.boolean()]),
  'a choice of objects': z.union([z.object({ a: z.string() }), z.object({ b: z.number() })]),
  'a choice by a tag': Tagged,
  'a record': z.record(z.string(), z.string()),
  'a record by an enumeration': z.record(z.enum(['up', 'down']), z.int()),
  'a record of anything': z.record(z.string(), z.unknown()),
  'a date': z.date(),
  'an optional object': z.object({ one: z.string().optional(), two: z.string().nullish(), three: z.int().nullable() }),
  'an object with defaults': z.object({ list: z.array(z.string()).default(['x']), word: z.string().default('"') }),
  'an object that keeps more': z.looseObject({ a: z.string() }),
  'an object that refuses more': z.strictObject({ a: z.string() }),
  'a refined object': z.object({ a: z.int(), b: z.int() }).refine(({ a, b }) => a <= b),
  'a transformed object': z.object({ a: z.string() }).transform(({ a }) => ({ length: a.length })),
  'nested lists': z.object({ rows: z.array(z.array(z.object({ id: z.string(), tags: Tagged.nullable() }))) }),
  'anything in an object': z.object({ a: z.unknown(), b: z.any().optional() }),
} satisfies Record<string, z.ZodType>

/** What looks right but breaks a pattern is written: handlers answer what was checked when it came in. */
const HAS_A_PATTERN: ReadonlySet<string> = new Set(['a time'])

const out = new JsonBytes()

/** The text that an answer of this schema is sent as. */
function compiled(schema: z.ZodType): (value: unknown) => string {
  const write = compileJson(schema)
  return (value) => {
    out.back(0)
    write(value, out)
    return out.take().toString()
  }
}

describe('answers as JSON', () => {
  it.each(Object.entries(shapes))(
    'writes %s as zod and JSON.stringify do, and refuses what zod refuses',
    (name, schema) => {
      const write = compiled(schema)
      fc.assert(
        fc.property(valuesNear(schema), (value) => {
          const parsed = schema.safeParse(value)
          if (parsed.success) expect(write(value)).toBe(JSON.stringify(parsed.data))
          else if (!HAS_A_PATTERN.has(name)) expect(() => write(value)).toThrow(z.ZodError)
        }),
        { numRuns: 300 },
      )
    },
  )

  it('writes what the schema of any endpoint accepts as zod and JSON.stringify do', () => {
    const responses = endpoints.filter(({ answers }) => answers === 'data').map(({ response }) => response)
    const fitting = responses.filter((response) => {
      const write = compiled(response)
      return fc.sample(valuesOf(response), { numRuns: 10, seed: 7 }).some((value) => {
        const parsed = response.safeParse(value)
        if (parsed.success) expect(write(value)).toBe(JSON.stringify(parsed.data))
        return parsed.success
      })
    })
    expect(fitting.length).toBeGreaterThan(responses.length / 2)
  })

  it('leaves out what the schema does not name, at every depth', () => {
    const schema = z.object({ user: z.object({ name: z.string() }), list: z.array(z.object({ id: z.int() })) })
    const value = { user: { name: 'a', passwordHash: 'x' }, list: [{ id: 1, secret: 'y' }], token: 'z' }
    expect(compiled(schema)(value)).toBe('{"user":{"name":"a"},"list":[{"id":1}]}')
  })

  it('names the field that does not fit', () => {
    const write = compiled(z.object({ rows: z.array(z.object({ id: z.string() })) }))
    expect(() => write({ rows: [{ id: 'a' }, { id: 2 }] })).toThrow(/"rows",\s*1,\s*"id"/)
    expect(() => write({})).toThrow(z.ZodError)
  })

  it('escapes strings that break JSON', () => {
    const write = compiled(z.object({ text: z.string() }))
    for (const text of ['"', '\\', '\n\u0000\u001f', '\ud800', '😀', '\u2028', 'ü', '</script>']) {
      expect(JSON.parse(write({ text }))).toEqual({ text: text === '\ud800' ? '\ud800' : text })
      expect(write({ text })).toBe(JSON.stringify({ text }))
    }
  })

  it('writes a constant by each schema with the fields of that schema, and lets nobody change it', () => {
    const value = frozen({ name: 'a', inner: { list: [1, 2] }, secret: 'x' })
    const wide = compiled(z.object({ name: z.string(), inner: z.object({ list: z.array(z.int()) }) }))
    const narrow = compiled(z.object({ name: z.string() }))
    for (let again = 0; again < 3; again++) {
      expect(wide(value)).toBe('{"name":"a","inner":{"list":[1,2]}}')
      expect(narrow(value)).toBe('{"name":"a"}')
    }
    expect(() => value.inner.list.push(3)).toThrow(TypeError)
    expect(() => compiled(z.object({ name: z.int() }))(value)).toThrow(z.ZodError)
  })
})

/** Values of the schema's shape, and such with one part replaced by something else. */
function valuesNear(schema: z.ZodType): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 4, arbitrary: valuesOf(schema) }, { weight: 1, arbitrary: JUNK })
}

const JUNK: fc.Arbitrary<unknown> = fc.constantFrom(
  undefined, null, 0, -0, Number.NaN, Number.POSITIVE_INFINITY, '', true, [], {}, [undefined], { kind: 'text' },
  { kind: 'other' }, new Date(0), new Map(), Symbol.iterator, 10n, { a: 1, more: 2 }, { constructor: 1 },
  JSON.parse('{"__proto__": {"a": "x"}}'),
) // biome-ignore format: a list

const TEXT = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.constantFrom('a', '  x ', 'https://a.b/c d', '1'),
)

function valuesOf(schema: z.ZodType): fc.Arbitrary<unknown> {
  const of = (inner: unknown) => valuesOf(inner as z.ZodType) // zod types parts by its core
  if (schema instanceof z.ZodObject) {
    const fields = Object.entries(schema.shape).map(([name, field]) => [name, of(field)])
    const more = fc.record({ more: fc.anything() }, { requiredKeys: [] })
    const whole = fc.record<Record<string, unknown>>(Object.fromEntries(fields))
    return fc.tuple(whole, more).map(([value, extra]) => ({ ...value, ...extra }))
  }
  if (schema instanceof z.ZodArray) return fc.array(of(schema.element), { maxLength: 3 })
  if (schema instanceof z.ZodRecord)
    return fc.dictionary(valuesOf(z.string()) as fc.Arbitrary<string>, of(schema.valueType))
  if (schema instanceof z.ZodNullable) return fc.option(of(schema.unwrap()), { nil: null })
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) {
    return fc.option(of(schema.unwrap()), { nil: undefined })
  }
  if (schema instanceof z.ZodUnion) return fc.oneof(...schema.options.map(of))
  if (schema instanceof z.ZodPipe) return of(schema.in)
  if (schema instanceof z.ZodEnum) return fc.constantFrom<unknown>(...schema.options)
  if (schema instanceof z.ZodLiteral) return fc.constantFrom<unknown>(...schema.values)
  if (schema instanceof z.ZodUnknown || schema instanceof z.ZodAny) return fc.jsonValue()
  return SCALARS[schema.def.type] ?? JUNK
}

const SCALARS: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  string: fc.oneof(TEXT, fc.constantFrom('2026-01-02T03:04:05.678Z', '2026-01-02', '127.0.0.1', 'loc_1')),
  number: fc.oneof(fc.integer({ min: 0, max: 90_000 }), fc.double({ noNaN: true, noDefaultInfinity: true })),
  boolean: fc.boolean(),
  null: fc.constant(null),
  date: fc.date(),
}
