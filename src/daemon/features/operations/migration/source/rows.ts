import { z } from 'zod'
import { agentLines, agentText } from '../../../../../shared/kernel/agent-text.ts'
import type { SourceKind, SourceList, UnreadableItem } from './model.ts'
import { SourceFailure } from './source.ts'

// How the answers of a source are read: each row by itself, so that one that is broken costs nothing but itself.

/** A number or a text, as the flavours have it; becomes part of paths and keys. */
export const Id = z.union([z.number().int().nonnegative(), z.string().min(1).max(100)]).transform(String)
export const OptionalId = Id.nullish().transform((value) => value ?? null)
/** A name of somebody or something, as it is shown. */
export const Line = (most = 255) =>
  z
    .union([z.string(), z.number(), z.null()])
    .optional()
    .transform((value) => agentText(String(value ?? ''), most))
/** A description, of several lines. */
export const Lines = (most = 4000) =>
  z
    .union([z.string(), z.null()])
    .optional()
    .transform((value) => agentLines(value ?? '', most))
export const OptionalLine = (most = 255) => Line(most).transform((value) => (value === '' ? null : value))
/** A text that counts by the letter; what is too long is refused and not cut. */
export const Exact = (most: number) =>
  z
    .union([z.string(), z.number(), z.boolean(), z.null()])
    .optional()
    .transform((value) => String(value ?? ''))
    .pipe(z.string().max(most))
export const Uuid = z
  .string()
  .max(64)
  .nullish()
  .transform((value) => (value === '' || value === undefined ? null : value))
/** PHP has 0 and 1 where it means no and yes. */
export const Flag = z
  .union([z.boolean(), z.number(), z.string(), z.null()])
  .optional()
  .transform((value) => value === true || value === 1 || value === '1' || value === 'true')
export const Whole = (least = 0, most = Number.MAX_SAFE_INTEGER) =>
  z
    .union([z.number(), z.string().regex(/^-?\d{1,15}$/, 'must be a number')])
    .transform(Number)
    .pipe(z.number().int().min(least).max(most))
export const Port = Whole(1, 65_535)
/** A list of texts; PHP answers a list with gaps as a map. */
export const Texts = z
  .union([z.array(z.unknown()), z.record(z.string(), z.unknown()), z.null()])
  .optional()
  .transform((value) => Object.values(value ?? {}).filter((one) => typeof one === 'string'))
  .pipe(z.array(z.string().max(1000)).max(1000))
/** A map; PHP answers an empty one as a list. */
export const Values = z
  .union([z.array(z.unknown()), z.record(z.string(), z.unknown()), z.null()])
  .optional()
  .transform((value): Readonly<Record<string, unknown>> => (Array.isArray(value) || !value ? {} : value))

/** Attributes of an item, with those of what was included under its name. */
export const Item = z.looseObject({
  object: z.string().nullish(),
  attributes: z.looseObject({}).nullable(),
})
const List = z.looseObject({
  object: z.literal('list'),
  data: z.array(z.unknown()).max(100_000),
  meta: z.unknown().optional(),
})
const Pages = z.looseObject({
  pagination: z.looseObject({ total: Whole(), current_page: Whole(), total_pages: Whole() }),
})

export interface Page {
  readonly rows: readonly unknown[]
  readonly total: number
  readonly isLast: boolean
}

/** A page of a list. Throws a {@link SourceFailure} for anything else. */
export function pageOf(answer: unknown, what: string): Page {
  const parsed = List.safeParse(answer)
  if (!parsed.success) throw notReadable(what)
  const { data, meta } = parsed.data
  const pages = Pages.safeParse(meta)
  // Lists without pages are whole.
  if (!pages.success) return { rows: data, total: data.length, isLast: true }
  const { total, current_page: page, total_pages: last } = pages.data.pagination
  return { rows: data, total, isLast: page >= last }
}

/** The attributes of the one item of an answer. */
export function itemOf(answer: unknown, what: string): Attributes {
  const parsed = Item.safeParse(answer)
  if (!parsed.success || parsed.data.attributes === null) throw notReadable(what)
  return parsed.data.attributes
}

export type Attributes = Readonly<Record<string, unknown>>

/** What was included under a name: rows, `null` when the key may not read them or they are not there. */
export function included(attributes: Attributes, name: string): readonly unknown[] | null {
  const relations = attributes['relationships']
  const value: unknown = typeof relations === 'object' && relations !== null ? Reflect.get(relations, name) : undefined
  const list = List.safeParse(value)
  if (list.success) return list.data.data
  const item = Item.safeParse(value)
  return item.success && item.data.attributes !== null ? [value] : null
}

/** Attributes of the only thing that was included under a name. */
export function includedOne(attributes: Attributes, name: string): Attributes | null {
  const first = Item.safeParse(included(attributes, name)?.[0])
  return first.success ? first.data.attributes : null
}

/** Reads each row; those that are broken are listed with what is wrong with them. */
export function readRows<T>(
  kind: SourceKind,
  rows: readonly unknown[],
  read: (attributes: Attributes) => T,
): SourceList<T> {
  const items: T[] = []
  const unreadable: UnreadableItem[] = []
  for (const row of rows) {
    const parsed = Item.safeParse(row)
    const attributes = parsed.success ? parsed.data.attributes : null
    try {
      if (attributes === null) throw notReadable(kind)
      items.push(read(attributes))
    } catch (error) {
      if (!(error instanceof z.ZodError) && !(error instanceof SourceFailure)) throw error
      unreadable.push(unreadableOf(kind, attributes, reasonOf(error)))
    }
  }
  return { items, unreadable }
}

/** Reads the one item of an answer. Throws a {@link SourceFailure} where it is broken. */
export function readItem<T>(kind: SourceKind, answer: unknown, read: (attributes: Attributes) => T): T {
  const { items, unreadable } = readRows(kind, [answer], read)
  const [item] = items
  if (item === undefined) throw new SourceFailure('not-a-source', unreadable[0]?.reason ?? `no ${kind}`)
  return item
}

function unreadableOf(kind: SourceKind, attributes: Attributes | null, reason: string): UnreadableItem {
  const id = Id.safeParse(attributes?.['id'] ?? attributes?.['uuid'])
  const name = Line().safeParse(attributes?.['name'] ?? attributes?.['username'])
  return {
    kind,
    id: id.success ? id.data : null,
    name: name.success && name.data !== '' ? name.data : null,
    reason: agentText(reason, 500),
  }
}

function reasonOf(error: z.ZodError | SourceFailure): string {
  if (error instanceof SourceFailure) return error.message
  const texts = error.issues.slice(0, 5).map(({ path, message }) => `${path.map(String).join('.')}: ${message}`)
  return `the source answers what cannot be read: ${texts.join('; ')}`
}

const notReadable = (what: string): SourceFailure =>
  new SourceFailure('not-a-source', `the source answers something for ${what} that is no answer of such a panel`)
