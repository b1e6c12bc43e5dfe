import type { Connection } from './sqlite/connection.ts'
import { type NamedTables, namedTables } from './sqlite/named-tables.ts'
import { WalIndex } from './sqlite/wal-index.ts'

/**
 * Knows when each table has changed last, so that what was read once need not be read again. A commit of this process
 * counts for the tables that its statements name; one of another process, which names nothing, for all.
 */
export class TableChanges {
  readonly #index: WalIndex
  readonly #writer: Connection
  readonly #listeners = new Set<() => void>()
  #named: NamedTables
  /** Counts commits; the number of a table's last one is in {@link #last}. */
  #count = 0
  #allSince = 0
  readonly #last = new Map<string, number>()
  readonly #pending = new Set<string>()
  #pendingAll = false
  /** Whether a transaction of this process may be what changes the file now. */
  #busy = false
  /** Whether a transaction of this process has been committed since the last one that was counted. */
  #isCommitted = false
  /** Whether what a transaction of this process sees is all counted. */
  #insideIsKnown = false
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
    writer.onStatement = (sql) => this.#noted(sql)
  }

  /** The present moment for {@link TableChanges.unmoved}; `undefined` while something is committed that is not counted yet. */
  moment(): number | undefined {
    if (this.#index.isKnown()) return this.#count
    if (!this.#busy) this.#foreign()
    return undefined
  }

  /** Whether none of the tables has changed since that moment. */
  unmoved(tables: Iterable<string>, since: number): boolean {
    if (this.#allSince > since) return false
    for (const table of tables) if ((this.#last.get(table) ?? 0) > since) return false
    return true
  }

  /** The tables that a statement reads; throws for one that reads more than tables. */
  readBy(sql: string): readonly string[] {
    return this.#named.readBy(sql)
  }

  /** Calls when another process or connection has committed something, once or more, until the returned function is called. */
  onForeign(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** A transaction is going to begin; what was undone before counts no longer. */
  begin(): void {
    this.#busy = true
    this.#insideIsKnown = false
    this.#forget()
  }

  /** It has begun: until it ends, nobody else commits. */
  begun(): void {
    this.#insideIsKnown = this.#index.isKnown()
    if (!this.#insideIsKnown) this.#foreign()
  }

  /** The same two questions for what the transaction that runs now sees, with what it has changed itself. */
  readonly inside = {
    moment: (): number | undefined => (this.#insideIsKnown && !this.#pendingAll ? this.#count : undefined),
    unmoved: (tables: readonly string[], since: number): boolean =>
      this.unmoved(tables, since) && !tables.some((table) => this.#pending.has(table)),
  }

  /** The transaction is on disk: called before anybody hears of it. */
  committed(): void {
    this.#isCommitted = true
    if (!this.#pendingAll && this.#pending.size === 0) return
    this.#count += 1
    if (this.#pendingAll) this.#allSince = this.#count
    for (const table of this.#pending) this.#last.set(table, this.#count)
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

  /** The transaction of this process was the only one: the counter of commits shows it without a question to the database. */
  #settleOwn(): boolean {
    if (!this.#insideIsKnown || !this.#isCommitted || this.#pendingAll) return false
    const header = this.#index.look()
    if (!this.#index.isOneLater(header)) return false
    this.#forget()
    this.#index.know(header)
    return true
  }

  close(): void {
    this.#index.close()
  }

  async #settle(schemaChanged: boolean): Promise<void> {
    // First the look, then the question: what is committed between the two is asked for again.
    const header = this.#index.look()
    const dataVersion = await dataVersionOf(this.#writer)
    const foreign = dataVersion !== this.#dataVersion
    if (foreign || schemaChanged) {
      this.#named = await namedTables(this.#writer)
      this.#count += 1
      this.#allSince = this.#count
    }
    this.#dataVersion = dataVersion
    this.#forget()
    this.#index.know(header)
    if (foreign) this.#foreign()
  }

  #forget(): void {
    this.#pending.clear()
    this.#pendingAll = false
  }

  #foreign(): void {
    for (const listener of this.#listeners) listener()
  }

  #noted(sql: string): void {
    const changed = this.#named.changedBy(sql)
    if (changed === 'all') this.#pendingAll = true
    else for (const table of changed) this.#pending.add(table)
  }
}

async function dataVersionOf(writer: Connection): Promise<unknown> {
  const [row] = await writer.all('PRAGMA data_version')
  return row?.['data_version']
}
