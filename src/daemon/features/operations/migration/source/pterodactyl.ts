import { eggOf } from './eggs.ts'
import { pathOf } from './http.ts'
import type { SourceEgg, SourceList, SourceLocation, SourceLoss, SourceNest, UnreadableItem } from './model.ts'
import { PanelSource } from './panel-source.ts'
import { Id, Line, Lines, readRows, Uuid } from './rows.ts'
import { SourceFailure } from './source.ts'

const INCLUDED = 'variables,config,script'
/** A list with an egg that the source cannot show fails each time. */
const FEW_ATTEMPTS = 2
/** Ids that are tried one by one where a list fails. */
const MOST_TRIED = 300

/** Pterodactyl 1.x. */
export class PterodactylSource extends PanelSource {
  readonly flavor = 'pterodactyl'
  protected readonly version = '1.x'
  protected readonly lists = [
    ['location', '/locations'],
    ['nest', '/nests'],
    ['node', '/nodes'],
    ['user', '/users'],
    ['server', '/servers'],
  ] as const
  protected override readonly parts = [
    ['egg', '/nests', '/eggs'],
    ['allocation', '/nodes', '/allocations'],
    ['database', '/servers', '/databases'],
  ] as const

  async locations(signal: AbortSignal): Promise<SourceList<SourceLocation>> {
    return readRows('location', await this.rows('/locations', { sort: 'id' }, signal), (row) => ({
      id: Id.parse(row['id']),
      name: Line().parse(row['short']),
      description: Lines().parse(row['long']),
    }))
  }

  async nests(signal: AbortSignal): Promise<SourceList<SourceNest>> {
    return readRows('nest', await this.rows('/nests', {}, signal), (row) => ({
      id: Id.parse(row['id']),
      uuid: Uuid.parse(row['uuid']),
      name: Line().parse(row['name']),
      description: Lines().parse(row['description']),
    }))
  }

  async eggs(signal: AbortSignal): Promise<SourceList<SourceEgg>> {
    const items: SourceEgg[] = []
    const unreadable: UnreadableItem[] = []
    const failed: string[] = []
    for (const { id } of (await this.nests(signal)).items) {
      try {
        const path = pathOf`/nests/${id}/eggs`
        const rows = await this.rows(path, { include: INCLUDED }, signal, FEW_ATTEMPTS)
        const list = readRows('egg', rows, (row) => eggOf(row, { nestId: id, isPelican: false }))
        items.push(...list.items)
        unreadable.push(...list.unreadable)
      } catch (error) {
        if (!(error instanceof SourceFailure) || error.problem !== 'broken') throw error
        failed.push(id)
      }
    }
    if (failed.length === 0) return { items, unreadable }
    const single = await this.#singleEggs(failed, new Set([...items, ...unreadable].map(({ id }) => id)), signal)
    return { items: [...items, ...single.items], unreadable: [...unreadable, ...single.unreadable] }
  }

  /** The eggs of nests whose lists fail, one by one: by the ids that servers name, and by all below the highest known one. */
  async #singleEggs(
    nests: readonly string[],
    known: ReadonlySet<string | null>,
    signal: AbortSignal,
  ): Promise<SourceList<SourceEgg>> {
    const servers = (await this.servers(signal)).items
    const ofServers = servers.map(({ eggId }) => eggId)
    const highest = Math.max(0, ...[...known, ...ofServers].map(Number).filter(Number.isSafeInteger))
    const below = Array.from({ length: Math.min(highest + 20, MOST_TRIED) }, (_, at) => String(at + 1))
    const items: SourceEgg[] = []
    const unreadable: UnreadableItem[] = []
    for (const id of new Set([...ofServers, ...below])) {
      if (known.has(id)) continue
      const found = await this.#singleEgg(nests, id, signal)
      if (found !== undefined && 'reason' in found) unreadable.push(found)
      else if (found !== undefined) items.push(found)
    }
    for (const nestId of nests) {
      const reason = 'its list of eggs fails; those that no server uses and that are beyond the ids tried are not known'
      unreadable.push({ kind: 'nest', id: nestId, name: null, reason })
    }
    return { items, unreadable }
  }

  /** `undefined`: none of these nests has it. */
  async #singleEgg(
    nests: readonly string[],
    id: string,
    signal: AbortSignal,
  ): Promise<SourceEgg | UnreadableItem | undefined> {
    for (const nestId of nests) {
      const path = pathOf`/nests/${nestId}/eggs/${id}`
      try {
        const request = { api: 'application', path, query: { include: INCLUDED }, attempts: FEW_ATTEMPTS } as const
        const answer = await this.find(request, signal)
        if (answer === undefined) continue
        const list = readRows('egg', [answer], (row) => eggOf(row, { nestId, isPelican: false }))
        return list.items[0] ?? list.unreadable[0]
      } catch (error) {
        if (!(error instanceof SourceFailure) || error.problem !== 'broken') throw error
        return { kind: 'egg', id, name: null, reason: error.message }
      }
    }
    return undefined
  }

  async mounts(): Promise<null> {
    return await Promise.resolve(null)
  }

  protected ownLosses(): readonly SourceLoss[] {
    return [
      { what: 'mounts', count: null, why: 'this API has none; add them to the servers here' },
      { what: 'features and update URLs of eggs', count: null, why: 'this API does not show them' },
      { what: 'OAuth links of users', count: null, why: 'this API does not show them' },
    ]
  }
}

