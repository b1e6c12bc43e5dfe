import { Connection } from './connection.ts'

const READERS = 2
/** Pages of the database that each keeps; the kernel has them all as well, and reads cost the same with four times as many. */
const CACHE_KIB = 500

/** The connections that only read; whoever finds none free waits for its turn. */
export class ReaderPool {
  readonly #all: readonly Connection[]
  readonly #free: Connection[]
  readonly #waiting: ((connection: Connection) => void)[] = []

  private constructor(connections: readonly Connection[]) {
    this.#all = connections
    this.#free = [...connections]
  }

  static async open(file: string, explain: (error: Error) => unknown): Promise<ReaderPool> {
    const connections: Connection[] = []
    for (let i = 0; i < READERS; i++) {
      const connection = await Connection.open(file, 'existing', explain)
      await connection.exec(
        `PRAGMA busy_timeout = 5000; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA query_only = ON`,
      )
      connections.push(connection)
    }
    return new ReaderPool(connections)
  }

  async acquire(): Promise<Connection> {
    return this.#free.pop() ?? new Promise((resolve) => this.#waiting.push(resolve))
  }

  release(connection: Connection): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free.push(connection)
    else next(connection)
  }

  async close(): Promise<void> {
    for (const connection of this.#all) await connection.close()
  }
}
