import type { SourceHttp } from './http.ts'
import type { SourceEgg, SourceList, SourceServer, UnreadableItem } from './model.ts'
import { type Attributes, readRows } from './rows.ts'
import { SourceFailure } from './source.ts'

/** A list with an egg that the source cannot show fails each time. */
export const FEW_ATTEMPTS = 2
/** Ids that are tried one by one where a list fails. */
const MOST_TRIED = 300
/** How far behind the highest known id. */
const BEYOND = 20

/** Where an egg may be asked for by its id. */
export interface EggPlace {
  path(id: string): string
  read(attributes: Attributes): SourceEgg
}

/**
 * Eggs of a list that fails as a whole, one by one: those that servers name, and all below the highest id that is known. One that cannot be
 * shown by itself is unreadable.
 */
export async function readSingleEggs(
  http: SourceHttp,
  {
    places,
    query,
    servers,
    known,
  }: {
    readonly places: readonly EggPlace[]
    readonly query: Readonly<Record<string, string>>
    readonly servers: readonly Pick<SourceServer, 'eggId'>[]
    readonly known: ReadonlySet<string | null>
  },
  signal: AbortSignal,
): Promise<SourceList<SourceEgg>> {
  const ofServers = servers.map(({ eggId }) => eggId)
  const highest = Math.max(0, ...[...known, ...ofServers].map(Number).filter(Number.isSafeInteger))
  const below = Array.from({ length: Math.min(highest + BEYOND, MOST_TRIED) }, (_, at) => String(at + 1))
  const items: SourceEgg[] = []
  const unreadable: UnreadableItem[] = []
  for (const id of new Set([...ofServers, ...below])) {
    if (known.has(id)) continue
    for (const place of places) {
      const found = await readEgg(http, { place, query, id }, signal)
      if (found === undefined) continue
      items.push(...found.items)
      unreadable.push(...found.unreadable)
      break
    }
  }
  return { items, unreadable }
}

/** `undefined`: there is none. */
async function readEgg(
  http: SourceHttp,
  {
    place,
    query,
    id,
  }: { readonly place: EggPlace; readonly query: Readonly<Record<string, string>>; readonly id: string },
  signal: AbortSignal,
): Promise<SourceList<SourceEgg> | undefined> {
  const request = { api: 'application', method: 'GET', path: place.path(id), query, attempts: FEW_ATTEMPTS } as const
  try {
    return readRows('egg', [await http.request(request, signal)], (row) => place.read(row))
  } catch (error) {
    if (!(error instanceof SourceFailure)) throw error
    if (error.problem === 'missing') return undefined
    if (error.problem !== 'broken') throw error
    return { items: [], unreadable: [{ kind: 'egg', id, name: null, reason: error.message }] }
  }
}
