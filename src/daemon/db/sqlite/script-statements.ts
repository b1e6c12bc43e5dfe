import { isStorageFailure } from './failures.ts'

/** One of several statements that are run as one. */
export interface Step {
  /** It changes rows, and gives none. */
  readonly sql: string
  readonly parameters: readonly unknown[]
  /** So many rows it must change; `undefined`: however many. */
  readonly expected: number | undefined
}

/** More than the program has kinds of transactions that are run so; each is compiled once. */
const MOST_SCRIPTS = 64
/** So many statements at most: of longer ones hardly two are the same. */
const MOST_STEPS = 8

/** What SQLite is made to say where a condition of a script does not hold. */
const UNMET = 'a condition of the script does not hold'

/**
 * Statements that run several as one. What a trigger says is part of the statement that has fired it, so one that inserts into a view does whatever
 * the view's trigger says (https://www.sqlite.org/lang_createtrigger.html#instead_of_triggers): a transaction is one way to SQLite's thread and back, instead of
 * one for each statement, its beginning and its end. Views and triggers are temporary: they are this connection's alone.
 */
export class ScriptStatements {
  readonly #create: (sql: string) => Promise<void>
  /** By the statements of a script; `undefined`: it cannot be run so. */
  readonly #known = new Map<string, Promise<string | undefined>>()
  #made = 0

  /** `create` runs what makes views and triggers. */
  constructor(create: (sql: string) => Promise<void>) {
    this.#create = create
  }

  /** The statement for these, which takes {@link valuesOf} them; `undefined` where they cannot be run so. */
  of(steps: readonly Step[]): Promise<string | undefined> {
    if (steps.length > MOST_STEPS) return Promise.resolve(undefined)
    const key = steps.map(({ sql, expected }) => `${sql}${expected === undefined ? '' : ' -- counted'}`).join(';\n')
    const known = this.#known.get(key)
    if (known !== undefined) return known
    if (this.#known.size >= MOST_SCRIPTS) return Promise.resolve(undefined)
    const making = this.#make(steps).catch((error: unknown) => {
      // Not everything that is a statement is one in a trigger.
      if (!isStorageFailure(error)) return undefined
      this.#known.delete(key)
      throw error
    })
    this.#known.set(key, making)
    return making
  }

  async #make(steps: readonly Step[]): Promise<string | undefined> {
    // A question mark in a text is no place for a value, and a semicolon would end the statement.
    if (steps.some(({ sql }) => sql.includes(';') || /'[^']*\?[^']*'/.test(sql))) return undefined
    this.#made += 1
    const name = `script_${this.#made}`
    let count = 0
    const next = (): string => `new.v${count++}`
    const guard = `select raise(abort, '${UNMET}') from pragma_data_version where data_version is not ${next()}`
    const body = steps.flatMap(({ sql, expected }) => [
      sql.replace(/\?/g, next),
      ...(expected === undefined ? [] : [`select raise(abort, '${UNMET}') where changes() <> ${next()}`]),
    ])
    if (count !== valuesOf(steps, 0).length) return undefined // one of them stands in a comment or in a name
    const columns = Array.from({ length: count }, (_, place) => `null as v${place}`)
    await this.#create(
      `create temp view ${name} as select ${columns.join(', ')};
      create temp trigger ${name}_steps instead of insert on ${name} begin ${[guard, ...body].join(';\n')}; end`,
    )
    // Whoever looks at what runs sees what it stands for.
    const comment = steps.map(({ sql }) => sql.trim()).join('; ')
    return `insert into ${name} values (${columns.map(() => '?').join(', ')}) /* ${comment.replaceAll('*/', '* /')} */`
  }
}

/** The values that the statement of a script takes; `version`: see `Connection.runScript`. */
export function valuesOf(steps: readonly Step[], version: unknown): unknown[] {
  return [
    version,
    ...steps.flatMap(({ parameters, expected }) => [...parameters, ...(expected === undefined ? [] : [expected])]),
  ]
}

/** Whether a script was not run because a condition did not hold. */
export function isUnmet(error: unknown): boolean {
  return error instanceof Error && error.message.includes(UNMET)
}
