import { eggOf } from './eggs.ts'
import { pathOf } from './http.ts'
import type { SourceEgg, SourceList, SourceLocation, SourceLoss, SourceNest, UnreadableItem } from './model.ts'
import { PanelSource } from './panel-source.ts'
import { type Attributes, Id, Line, Lines, readRows, Uuid } from './rows.ts'
import { FEW_ATTEMPTS, readSingleEggs } from './single-eggs.ts'
import { SourceFailure } from './source.ts'

const INCLUDED = 'variables,config,script'
const LIST_FAILS = 'its list of eggs fails; those that no server uses and that are beyond the ids tried are not known'

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
    const places = failed.map((nestId) => ({
      path: (id: string) => pathOf`/nests/${nestId}/eggs/${id}`,
      read: (row: Attributes) => eggOf(row, { nestId, isPelican: false }),
    }))
    const known = new Set([...items, ...unreadable].map(({ id }) => id))
    const servers = (await this.servers(signal)).items
    const single = await readSingleEggs(this.http, { places, query: { include: INCLUDED }, servers, known }, signal)
    const nests = failed.map((id) => ({ kind: 'nest', id, name: null, reason: LIST_FAILS }) as const)
    return { items: [...items, ...single.items], unreadable: [...unreadable, ...single.unreadable, ...nests] }
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
