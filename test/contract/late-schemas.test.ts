import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import * as late from '../../src/shared/kernel/late-schemas.ts'
import { strictBody } from '../../src/shared/kernel/strict-body.ts'

type Zod = Pick<
  typeof z,
  'array' | 'boolean' | 'coerce' | 'discriminatedUnion' | 'enum' | 'int' | 'literal' | 'number' | 'object'
> &
  Pick<
    typeof z,
    | 'email'
    | 'unknown'
    | 'looseObject'
    | 'record'
    | 'strictObject'
    | 'string'
    | 'union'
    | 'ZodDefault'
    | 'ZodObject'
    | 'ZodOptional'
    | 'nullable'
    | 'optional'
    | 'tuple'
  >

const row = { name: ' ab ', age: 3, tags: ['c'] }

/** What the contract does with zod, each a schema made with the given one. */
function schemas(by: Zod): Record<string, z.ZodType> {
  const Name = by.string().trim().min(1).max(5)
  const Row = by.object({ name: Name, age: by.int().min(0).nullable(), tags: by.array(Name).max(2).default([]) })
  const Kind = by.discriminatedUnion('kind', [
    by.object({ kind: by.literal('a'), n: by.number() }),
    by.looseObject({ kind: by.literal(['b', 'c']) }),
  ])
  return {
    text: Name,
    row: Row,
    more: Row.extend({ kind: Kind.optional() }).partial({ age: true }),
    less: Row.pick({ name: true }).strict(),
    field: Row.shape.tags,
    likeRow: by.object({ ...Row.shape, name: Row.extend({ kind: Kind }).omit({ tags: true }).shape.kind }),
    likeLess: by.strictObject({ more: Name, ...Row.pick({ tags: true, name: true }).refine(() => true).shape }),
    likePart: by.looseObject(Row.omit({ age: true }).strict().partial().shape),
    choice: by.enum(['x', 'y']).exclude(['y']),
    either: by.union([by.boolean(), Name.transform((text) => text.length)]),
    counted: by.object({ n: by.coerce.number().int().min(1).default(50), more: by.unknown().optional() }),
    address: by.email().max(20),
    many: by.record(by.string().regex(/^k/), Row.or(by.literal(1))),
    own: by.nullable(by.tuple([Name, Row])),
    checked: Row.refine(({ name }) => name !== 'no', 'must not be no'),
    bare: by.object(
      Object.fromEntries(
        Object.entries({
          ...Row.partial({ age: true }).shape,
          nick: Name.nullish(),
          row: Row.default(row).refine(() => true),
        }).map(([name, field]) => [
          name,
          by.optional(field instanceof by.ZodDefault || field instanceof by.ZodOptional ? field.unwrap() : field),
        ]),
      ),
    ),
    strict: strictBody(by.object({ row: Row, list: by.array(Row).optional() })),
  }
}

const values: readonly unknown[] = [
  ...[' ab ', '', 'toolong', 'x', 'y', 1, true, null, undefined, [], {}],
  ...[row, { ...row, age: -1 }, { ...row, extra: 1 }, { name: 'no', age: null }, { name: 'a' }],
  ...[
    { ...row, kind: { kind: 'a', n: 1 } },
    { ...row, kind: { kind: 'b', more: 1 } },
    { ...row, kind: { kind: 'd' } },
  ],
  ...['a@example.org', 'a-name-that-is-too-long@example.org', { n: '7' }, { n: '0' }, { n: 'x', more: 1 }],
  ...[{ row: undefined }, { nick: null, row }, { nick: 'toolong', age: 'x' }],
  ...[{ k1: row, k2: 1 }, { z: 1 }, ['a', row], { row, list: [row] }, { row: { ...row, extra: 1 } }],
]

describe('schemas that are made when they are used', () => {
  const [now, then] = [schemas(z), schemas(late)]

  it.each(Object.keys(now))('%s accepts, refuses and says the same as one of zod', (name) => {
    for (const value of values) {
      const [expected, found] = [now[name]?.safeParse(value), then[name]?.safeParse(value)]
      expect(found?.data, JSON.stringify(value)).toEqual(expected?.data)
      expect(found?.error?.issues, JSON.stringify(value)).toEqual(expected?.error?.issues)
    }
    expect(name === 'either' ? null : late.toJSONSchema(then[name] as z.ZodType, { io: 'input' })).toEqual(
      name === 'either' ? null : z.toJSONSchema(now[name] as z.ZodType, { io: 'input' }), // there is none of a transform
    )
    expect(then[name] instanceof z.ZodObject).toBe(now[name] instanceof z.ZodObject)
  })

  it('are not made before', () => {
    let made = 0
    const get = (): z.ZodType => {
      made++
      return late.string()
    }
    const shape = Object.defineProperty({}, 'name', { enumerable: true, get })
    const object = late.object(shape as { name: z.ZodString })
    const schema = object.optional()
    const classes = [late.ZodDefault, late.ZodOptional]
    expect(
      [object, schema, object.default({ name: 'a' }), object.nullish()].map((one) =>
        classes.map((of) => one instanceof of),
      ),
    ).toEqual([
      [false, false],
      [false, true],
      [true, false],
      [false, true],
    ])
    expect(object.shape).toBe(shape)
    expect(made).toBe(0)
    expect(schema.parse({ name: 'a' })).toEqual({ name: 'a' })
    expect(made).toBeGreaterThan(0)
  })
})
