import type { Driver } from './driver.ts'

/** A database of a server with its user, as they stand on the host. */
export interface Target {
  readonly name: string
  readonly username: string
  /** From where the user may connect. */
  readonly remote: string
}

/** What the panel asks of a host, in the host's own words. Names and passwords are the panel's own or checked by the contract. */
export interface Dialect {
  /** The version as the host says it; fails with `version` when it is too old. */
  version(): Promise<string>
  /** Whether there is any database of this name. */
  exists(target: Target): Promise<boolean>
  /** Makes database and user. Fails with `exists` when the name is taken, and has made nothing then. */
  create(target: Target, password: string): Promise<void>
  setPassword(target: Target, password: string): Promise<void>
  /**
   * Removes database and user, whatever is there of them, and ends their sessions. `whole` false: the database may be a
   * stranger's, because it was never known to be made; it is removed only when it is certainly not.
   */
  remove(target: Target, whole: boolean): Promise<void>
  /** Makes a further user with the rights of the database's own, for as long as the panel copies the database. Where hosts need that. */
  lend?(target: Target, password: string): Promise<void>
  /** Removes the user that {@link Dialect.lend} has made. */
  takeBack?(target: Target): Promise<void>
}

/** The dialect over an open connection. */
export type MakeDialect = (query: Driver['query']) => Dialect

/** A literal of plain characters. Nothing else is ever put into statements, so that no way of quoting has to be right. */
export function literal(text: string): string {
  if (!/^[\w%.:/+=$-]*$/.test(text)) throw new Error('a text for a statement holds more than plain characters')
  return `'${text}'`
}

/** Numbers at the beginning of a version: `10.11.6-MariaDB` is [10, 11]. */
export function versionNumbers(text: string): readonly [number, number] {
  const [, major, minor] = /^(\d+)(?:\.(\d+))?/.exec(text) ?? []
  return [Number(major ?? 0), Number(minor ?? 0)]
}
