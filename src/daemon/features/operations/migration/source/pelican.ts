import { eggOf } from './eggs.ts'
import { pathOf } from './http.ts'
import type { SourceEgg, SourceList, SourceLocation, SourceLoss, SourceMount, SourceNest } from './model.ts'
import { PanelSource } from './panel-source.ts'
import { type Attributes, Exact, Flag, Id, Item, included, Line, Lines, readRows, Texts, Uuid } from './rows.ts'
import { FEW_ATTEMPTS, readSingleEggs } from './single-eggs.ts'
import { SourceFailure } from './source.ts'

/** Where eggs without a tag go. */
const NO_TAG = 'Imported'
const LIST_FAILS = 'the list of eggs fails; those that no server uses and that are beyond the ids tried are not known'

/** Pelican, which has tags in place of nests and locations. */
export class PelicanSource extends PanelSource {
  readonly flavor = 'pelican'
  protected readonly version = 'unknown'
  protected readonly lists = [
    ['egg', '/eggs'],
    ['node', '/nodes'],
    ['user', '/users'],
    ['server', '/servers'],
    ['mount', '/mounts'],
  ] as const

  async locations(): Promise<SourceList<SourceLocation>> {
    return await Promise.resolve({ items: [], unreadable: [] })
  }

  async nests(signal: AbortSignal): Promise<SourceList<SourceNest>> {
    const ids = new Set((await this.eggs(signal)).items.map(({ nestId }) => nestId))
    const items = [...ids].map((id) => ({ id, uuid: null, name: id, description: '' }))
    return { items, unreadable: [] }
  }

  async eggs(signal: AbortSignal): Promise<SourceList<SourceEgg>> {
    const query = { include: 'variables' }
    try {
      return readRows('egg', await this.rows('/eggs', query, signal, FEW_ATTEMPTS), readEgg)
    } catch (error) {
      if (!(error instanceof SourceFailure) || error.problem !== 'broken') throw error
    }
    const servers = (await this.servers(signal)).items
    const places = [{ path: (id: string) => pathOf`/eggs/${id}`, read: readEgg }]
    const { items, unreadable } = await readSingleEggs(this.http, { places, query, servers, known: new Set() }, signal)
    return { items, unreadable: [...unreadable, { kind: 'egg', id: null, name: null, reason: LIST_FAILS }] }
  }

  async mounts(signal: AbortSignal): Promise<SourceList<SourceMount> | null> {
    const rows = await this.rows('/mounts', { include: 'servers' }, signal)
    return readRows('mount', rows, (row) => ({
      id: Id.parse(row['id']),
      uuid: Uuid.parse(row['uuid']),
      name: Line().parse(row['name']),
      description: Lines().parse(row['description']),
      source: Exact(4096).parse(row['source']),
      target: Exact(4096).parse(row['target']),
      isReadOnly: Flag.parse(row['read_only']),
      serverIds: (included(row, 'servers') ?? []).map((one) => Id.parse(Item.parse(one).attributes?.['id'])),
    }))
  }

  protected ownLosses(): readonly SourceLoss[] {
    return [
      { what: 'roles of administrators', count: null, why: 'their rights have no like here' },
      { what: 'icons of servers and eggs', count: null, why: 'this panel has none' },
    ]
  }
}

const readEgg = (row: Attributes): SourceEgg => eggOf(row, { nestId: nestOf(row), isPelican: true })

function nestOf(row: Attributes): string {
  const name = Line(100).parse(Texts.parse(row['tags'])[0])
  return name === '' ? NO_TAG : name
}
