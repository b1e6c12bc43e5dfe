import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { endpoints } from '../../src/shared/endpoints.ts'
import type { Endpoint } from '../../src/shared/kernel/contract.ts'
import { readByShape, type Shape, type ShapeNode, UNFIT } from '../../src/shared/outline/shape.ts'
import { ShapeTable } from '../../src/shared/outline/shape-of-schema.ts'

const answering = endpoints.filter(({ answers }) => answers === 'data')

describe('the shape of an answer', () => {
  it('can be said of every endpoint', () => {
    const without = answering.filter(({ response }) => new ShapeTable().add(response) === undefined)
    expect(without.map(({ id }) => id)).toEqual([])
    expect(answering.length).toBeGreaterThan(300)
  })

  it.each(answering.map((endpoint) => [endpoint.id, endpoint] as const))(
    'reads answers of %s as its schema does',
    (_, endpoint) => {
      const { shape, root } = shapeOf(endpoint)
      let taken = 0
      fc.assert(
        fc.property(fc.infiniteStream(fc.nat(1000)), fc.boolean(), (numbers, spoil) => {
          const next = (most: number): number => (numbers.next().value ?? 0) % most
          const value: unknown = JSON.parse(JSON.stringify(sample(shape, root, next, 0)))
          const answer = spoil ? spoilt(value, next) : value
          const read = readByShape(shape, root, answer)
          const parsed = endpoint.response.safeParse(answer)
          if (read === UNFIT) return
          taken += 1
          if (parsed.success) expect(JSON.stringify(read)).toBe(JSON.stringify(parsed.data))
          else expect(parsed.error.issues.filter((issue) => !isRefined(issue))).toEqual([])
        }),
        { seed: 20_261_124, numRuns: 12 },
      )
      expect(taken).toBeGreaterThan(0)
    },
  )

  it('refuses what is of another kind, beyond a limit, missing or none of the choices', () => {
    const table = new ShapeTable()
    const servers = endpoints.find(({ id }) => id === 'servers.list')
    const root = table.add(servers?.response as z.ZodType) ?? -1
    const [good] = sample(table.shape, root, (most) => Math.min(1, most - 1), 0) as [Record<string, unknown>]
    expect(readByShape(table.shape, root, [good])).not.toBe(UNFIT)
    for (const wrong of [{ status: 'melted' }, { name: 5 }, { primaryPort: 1.5 }, { node: null }, { ports: [{}] }]) {
      expect(readByShape(table.shape, root, [{ ...good, ...wrong }]), JSON.stringify(wrong)).toBe(UNFIT)
    }
    const { uuid: _, ...lacking } = good
    expect(readByShape(table.shape, root, [lacking])).toBe(UNFIT)
    expect(readByShape(table.shape, root, good)).toBe(UNFIT)
    expect(readByShape(table.shape, root, [JSON.parse('{"__proto__":{"id":"x"}}')])).toBe(UNFIT)
  })
})

function shapeOf({ response }: Endpoint): { readonly shape: Shape; readonly root: number } {
  const table = new ShapeTable()
  const root = table.add(response) ?? -1
  return { shape: table.shape, root }
}

/** What a shape leaves to those who made the answer. */
function isRefined(issue: z.core.$ZodIssue): boolean {
  if (issue.code === 'invalid_union') return issue.errors.some((option) => option.every(isRefined))
  if (issue.code === 'invalid_format')
    return !['regex', 'datetime', 'date', 'uuid', 'ipv4', 'email'].includes(issue.format)
  return issue.code === 'custom'
}

/** A value of a shape, by numbers that are drawn. */
function sample(shape: Shape, place: number, next: (most: number) => number, depth: number): unknown {
  const node = shape[place] as ShapeNode
  const inner = (at: number): unknown => sample(shape, at, next, depth + 1)
  const shallow = depth < 12 ? next(3) : 0
  switch (node.is) {
    case 'any':
      return [null, 'x', 3, { a: 1 }][next(4)]
    case 'boolean':
      return next(2) === 1
    case 'string':
      return textFor(node, next)
    case 'number':
      return numberFor(node, next)
    case 'one':
      return node.of[next(node.of.length)]
    case 'list':
      return Array.from({ length: Math.max(node.min ?? 0, Math.min(node.max ?? 2, shallow)) }, () => inner(node.of))
    case 'object': {
      const given = node.fields.filter(
        ([, at]) => !['optional', 'default'].includes(shape[at]?.is ?? '') || next(2) === 1,
      )
      const more = next(4) === 0 ? { unnamed: 1 } : {}
      return {
        ...(node.others === 'refused' ? {} : more),
        ...Object.fromEntries(given.map(([name, at]) => [name, inner(at)])),
      }
    }
    case 'map':
      return Object.fromEntries(Array.from({ length: shallow }, () => [String(inner(node.keys)), inner(node.of)]))
    case 'either':
      return inner(node.of[next(node.of.length)] ?? 0)
    case 'nullable':
      return next(2) === 0 ? null : inner(node.of)
    case 'optional':
    case 'default':
      return inner(node.of)
  }
}

const TEXTS = [
  'abc', '2026-01-31T12:00:00.000Z', '2026-01-31', '127.0.0.1', '#0d9488', 'a@example.org', '12:30', 'abcdef0123456789',
  '0'.repeat(64), 'a'.repeat(26), '0190a1b2-c3d4-7000-8000-000000000000', 'de', 'Europe/Berlin', '1.2.3', 'https://a.example/',
] // biome-ignore format: a list

const made = new Map<string, string>()

function textFor(node: Extract<ShapeNode, { is: 'string' }>, next: (most: number) => number): string {
  const like = (node.like ?? []).map(([source, flags]) => new RegExp(source, flags))
  const fits = (text: string): boolean => text.length >= (node.min ?? 0) && like.every((one) => one.test(text))
  const known = TEXTS.filter(fits)
  if (known.length > 0) return (known[next(known.length)] ?? '').slice(0, node.max)
  const key = JSON.stringify(node)
  const text =
    made.get(key) ??
    fc.sample(like[0] === undefined ? fc.constant('x'.repeat(node.min ?? 1)) : fc.stringMatching(like[0]), 1)[0] ??
    ''
  made.set(key, text)
  return text
}

function numberFor(node: Extract<ShapeNode, { is: 'number' }>, next: (most: number) => number): number {
  const low = node.min ?? (node.above === undefined ? 0 : node.above + 1)
  return Math.min(low + next(50), node.max ?? Number.MAX_SAFE_INTEGER, (node.below ?? Number.MAX_SAFE_INTEGER) - 1)
}

const WRONG: readonly unknown[] = [null, -1, 1.5, '', 'wrong\u001b[2J', true, [], {}, [[]], { a: null }, 1e21]

/** The value with something else in the place of a part of it, or without that part. */
function spoilt(value: unknown, next: (most: number) => number): unknown {
  if (typeof value !== 'object' || value === null || next(4) === 0) return WRONG[next(WRONG.length)]
  if (Array.isArray(value)) {
    const at = next(Math.max(1, value.length))
    return value.map((item, i) => (i === at ? spoilt(item, next) : item))
  }
  const entries = Object.entries(value)
  const at = next(Math.max(1, entries.length))
  const lacking = next(4) === 0
  return Object.fromEntries(
    entries.flatMap(([name, item], i) => (i !== at ? [[name, item]] : lacking ? [] : [[name, spoilt(item, next)]])),
  )
}
