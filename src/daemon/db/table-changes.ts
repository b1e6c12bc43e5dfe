import type { Connection } from './sqlite/connection.ts'
import { cachedBySql, type NamedTables, namedTables } from './sqlite/named-tables.ts'
import { WalIndex } from './sqlite/wal-index.ts'
import { changedParts, type Seen, seenBy } from './table-parts.ts'

const DONE = Promise.resolve()

/** Hundreds of requests that wait together are hundreds that V8 copies in each of its collections. */
const MOST_ASKING = 32

/** Those who wait for the next look. */
interface Looking {
  readonly done: Promise<void>
  readonly resolve: () => void
  asking: number
}

/**
 * What a look has found: nothing is committed that is not counted; or only what this process commits now, of which is known what it changes; or
 * something else.
 */
type Look = 'known' | 'own' | 'unknown'

/** Between two counted commits, while the second is seen by some already. */
const BETWEEN = 0.5

/** Far more rows than are written between two times that somebody looks at what was made of them. */
const MOST_ROWS = 50_000

/**
 * Knows when each table has changed last, and where the statements say it, which of its columns and rows, so that what was read once need not be read again. A commit of this
 * process counts for what its statements name; one of another process, which names nothing, for all.
 */
export class TableChanges {
  readonly #index: WalIndex
  readonly #writer: Connection
  readonly #listeners = new Set<() => void>()
  #named: NamedTables
  #reads: (sql: string) => readonly Seen[]
  /** Counts commits; the number of the last one of a table or of a part of it is in {@link #last}, of a row in {@link #rows}. */
  #count = 0
  #allSince = 0
  readonly #last = new Map<string, number>()
  readonly #rows = new Map<string, number>()
  /** Up to which commit rows are no longer distinguished. */
  #rowsSince = 0
  #pending = nothing()
  #pendingAll = false
  /** Whether a transaction of this process may be what changes the file now. */
  #busy = false
  /** Whether the transaction that runs has certainly changed the file: a row was added, and nothing has been undone since. */
  #hasWritten = false
  /** Whether the transaction that runs is being committed: nobody has heard of it yet, but who reads may see it. */
  #isCommitting = false
  /** Whether a transaction of this process has been committed since the last one that was counted. */
  #isCommitted = false
  /** Whether what a transaction of this process sees is all counted. */
  #insideIsKnown = false
  /** The look that has been made in this turn, and the one that is going to be. */
  #look: Look | undefined
  /** Whether the last moment that was asked for was between two commits. */
  #isBetween = false
  #looking: Looking | undefined
  /** Whether a look is going to be made at the end of this turn. */
  #isPlanned = false
  #isClosed = false
  /** What the writer calls the state of the file; it changes with commits of other connections alone. */
  #dataVersion: unknown

  /** For the database that `writer` has open in WAL mode. */
  static async open(database: string, writer: Connection): Promise<TableChanges> {
    await writer.all('PRAGMA user_version') // the index is there when something has been read
    const changes = new TableChanges(new WalIndex(database), writer, await namedTables(writer))
    changes.#dataVersion = await dataVersionOf(writer)
    await changes.settle()
    return changes
  }

  private constructor(index: WalIndex, writer: Connection, named: NamedTables) {
    this.#index = index
    this.#writer = writer
    this.#named = named
    this.#reads = readsOf(named)
    writer.onStatement = (sql, parameters) => this.#noted(sql, parameters)
    writer.onRows = (sql, rows) => {
      if (rows > 0 && !this.#hasWritten) this.#hasWritten = this.#adds(sql)
    }
  }

  /**
   * Looks whether anything is committed that is not counted yet: once for all who ask in one turn of the event loop, when everything that has
   * come in is read, or when {@link MOST_ASKING} have asked. Whoever asked came before that look, so what is committed after it is nothing that they must see: until this turn's work
   * is done, {@link TableChanges.moment} goes by it. A look takes a tenth of a cached answer.
   */
  looked(): Promise<void> {
    if (this.#look !== undefined) return DONE
    this.#looking ??= this.#nextLook()
    this.#looking.asking += 1
    const { done } = this.#looking
    if (this.#looking.asking === MOST_ASKING) this.#lookNow()
    return done
  }

  #nextLook(): Looking {
    if (!this.#isPlanned) {
      this.#isPlanned = true
      setImmediate(() => {
        this.#isPlanned = false
        this.#lookNow()
      })
    }
    let resolve = (): void => undefined
    const done = new Promise<void>((done) => (resolve = done))
    return { done, resolve, asking: 0 }
  }

  #lookNow(): void {
    const looking = this.#looking
    if (looking === undefined) return
    this.#looking = undefined
    if (!this.#isClosed) this.#look = this.#lookUp()
    looking.resolve()
    // Behind all that goes on from here without waiting for anything else.
    queueMicrotask(() => process.nextTick(() => (this.#look = undefined)))
  }

  /**
   * The present moment for {@link TableChanges.unmoved}; `undefined` while something is committed that is not counted yet. While that is what this process
   * commits, a moment between the commit before and this one: what it changes has moved, all else has not.
   */
  moment(): number | undefined {
    const look = this.#look ?? this.#lookUp()
    this.#isBetween = look === 'own' && this.#isCommitting
    if (look !== 'unknown') return this.#isBetween ? this.#count + BETWEEN : this.#count
    if (!this.#busy) this.#foreign()
    return undefined
  }

  /**
   * The header of the log changes at the end of a commit, some time before this process hears that it is through. Nobody else can commit before it, so a counter that is
   * one higher is that commit, and one that is two higher is something else. (It may have failed, and another program have committed in those milliseconds: what
   * that has changed is then not seen before the failure is.)
   */
  #lookUp(): Look {
    if (this.#index.isKnown()) return 'known'
    const isOwn = this.#isCommitting && this.#insideIsKnown && this.#hasWritten && !this.#pendingAll
    return isOwn && this.#index.isOneLater() ? 'own' : 'unknown'
  }

  /** Whether nothing of all this has changed since that moment. */
  unmoved(seen: readonly Seen[], since: number): boolean {
    if (this.#allSince > since || (this.#isBetween && this.#isPending(seen))) return false
    const moved = (part: string): boolean => (this.#last.get(part) ?? 0) > since
    return !seen.some((one) => isMoved(one, { moved, movedRow: (row) => this.#rowMoved(row, since) }))
  }

  /** What the writer calls the state of the file (`PRAGMA data_version`) with all that is counted. */
  get version(): unknown {
    return this.#dataVersion
  }

  /** What a statement reads; throws for one that reads more than tables. `stays`: see {@link seenBy}. */
  readBy(sql: string, { stays = false } = {}): readonly Seen[] {
    return stays ? this.#named.readBy(sql).map((one) => seenBy(one, { stays })) : this.#reads(sql)
  }

  /** Calls when another process or connection has committed something, once or more, until the returned function is called. */
  onForeign(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** A transaction is going to begin; what was undone before counts no longer. */
  begin(): void {
    this.#busy = false
    this.#insideIsKnown = false
    this.#hasWritten = false
    this.#isCommitting = false
    this.#forget()
  }

  /** It has begun, or something of it was undone: until it ends, nobody else commits. Before that others may, for as long as it waits for them. */
  begun(): void {
    this.#busy = true
    this.#hasWritten = false
    this.#insideIsKnown = this.#index.isKnown()
    if (!this.#insideIsKnown) this.#foreign()
  }

  /** The same two questions for what the transaction that runs now sees, with what it has changed itself. */
  readonly inside = {
    moment: (): number | undefined => (this.#insideIsKnown && !this.#pendingAll ? this.#count : undefined),
    unmoved: (seen: readonly Seen[], since: number): boolean => this.unmoved(seen, since) && !this.#isPending(seen),
  }

  /** Whether the transaction that runs changes any of this. */
  #isPending(seen: readonly Seen[]): boolean {
    const { parts, rows } = this.#pending
    const pending = { moved: (part: string) => parts.has(part), movedRow: (row: string) => rows.has(row) }
    return seen.some((one) => isMoved(one, pending))
  }

  /** The transaction is going to be committed. */
  committing(): void {
    this.#isCommitting = true
  }

  /** The transaction is on disk: called before anybody hears of it. */
  committed(): void {
    this.#isCommitting = false
    this.#isCommitted = true
    if (!this.#pendingAll && this.#pending.parts.size === 0) return
    this.#count += 1
    if (this.#pendingAll) this.#allSince = this.#count
    for (const part of this.#pending.parts) this.#last.set(part, this.#count)
    for (const row of this.#pending.rows) this.#rows.set(row, this.#count)
    if (this.#rows.size <= MOST_ROWS) return
    this.#rows.clear()
    this.#rowsSince = this.#count
  }

  /** The same for one whose commit has failed: nobody knows. */
  mayBeCommitted(): void {
    this.committed()
    this.#hasWritten = false
  }

  /**
   * Counts what others have committed, so that there is a {@link TableChanges.moment} again. Called outside of transactions: after each,
   * and when there is none.
   */
  async settle(): Promise<void> {
    try {
      if (this.#settleOwn()) return
      if (this.#pendingAll || !this.#index.isKnown()) await this.#settle(this.#pendingAll)
    } finally {
      this.#busy = false
      this.#insideIsKnown = false
      this.#isCommitted = false
    }
  }

  /**
   * The transaction of this process was the only one: the counter of commits shows it without a question to the database. A transaction
   * that has changed nothing does not move the counter: then one that does is somebody else's.
   */
  #settleOwn(): boolean {
    if (!this.#insideIsKnown || !this.#isCommitted || !this.#hasWritten || this.#pendingAll) return false
    const header = this.#index.look()
    if (!this.#index.isOneLater(header)) return false
    this.#forget()
    this.#index.know(header)
    return true
  }

  close(): void {
    this.#isClosed = true
    this.#index.close()
  }

  async #settle(schemaChanged: boolean): Promise<void> {
    // First the look, then the question: what is committed between the two is asked for again.
    const header = this.#index.look()
    const dataVersion = await dataVersionOf(this.#writer)
    const foreign = dataVersion !== this.#dataVersion
    if (foreign || schemaChanged) {
      this.#know(await namedTables(this.#writer))
      this.#count += 1
      this.#allSince = this.#count
    }
    this.#dataVersion = dataVersion
    this.#forget()
    this.#index.know(header)
    if (foreign) this.#foreign()
  }

  #know(named: NamedTables): void {
    this.#named = named
    this.#reads = readsOf(named)
  }

  #rowMoved(row: string, since: number): boolean {
    return this.#rowsSince > since || (this.#rows.get(row) ?? 0) > since
  }

  #forget(): void {
    this.#pendingAll = false
    // Others, since one that is cleared stays linked to what it has held before.
    if (this.#pending.parts.size > 0 || this.#pending.rows.size > 0) this.#pending = nothing()
  }

  #foreign(): void {
    for (const listener of this.#listeners) listener()
  }

  /** Whether rows of this statement are rows that it has added; one that changes rows may have written what was there. */
  #adds(sql: string): boolean {
    const changed = this.#named.changedBy(sql)
    return changed !== 'all' && changed.some(({ how }) => how === 'inserts')
  }

  #noted(sql: string, parameters: readonly unknown[]): void {
    const changed = this.#named.changedBy(sql)
    if (changed === 'all') {
      this.#pendingAll = true
      return
    }
    for (const change of changed) {
      const { parts, rows } = changedParts(change, parameters)
      for (const part of parts) this.#pending.parts.add(part)
      for (const row of rows) this.#pending.rows.add(row)
    }
  }
}

function nothing(): { readonly parts: Set<string>; readonly rows: Set<string> } {
  return { parts: new Set(), rows: new Set() }
}

function readsOf(named: NamedTables): (sql: string) => readonly Seen[] {
  return cachedBySql((sql) => named.readBy(sql).map((one) => seenBy(one)))
}

/** `moved` says it of the table as a whole by its name, and of its parts. */
function isMoved(
  { table, parts, rows, columns }: Seen,
  { moved, movedRow }: { moved: (part: string) => boolean; movedRow: (row: string) => boolean },
): boolean {
  if (!moved(table)) return false
  if (parts === 'all' || parts.some(moved)) return true
  return rows.some(movedRow) && (columns === 'all' || columns.some(moved))
}

async function dataVersionOf(writer: Connection): Promise<unknown> {
  const [row] = await writer.all('PRAGMA data_version')
  return row?.['data_version']
}
