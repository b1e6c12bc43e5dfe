import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { readOwnJson, writeOwnJson } from '../state/json-file.ts'

/** User and group numbers of servers; no account of the system has them. */
export const FIRST_SERVER_UID = 70_000
const SERVER_UIDS = 30_000

/** Which server has which user number; kept in the data folder, so that a server's files stay its own. */
export class ServerUsers {
  private readonly path: string
  private readonly start: number
  private turn: Promise<unknown> = Promise.resolve()

  constructor(dataDir: string) {
    this.path = join(dataDir, 'users.json')
    // Two data folders of one machine begin at different places, so that their servers hardly ever share a user.
    this.start = createHash('sha256').update(dataDir).digest().readUInt32BE(0) % SERVER_UIDS
  }

  /** The server's user number, given at the first call and the same for ever. */
  uidOf(serverId: string): Promise<number> {
    const mine = this.turn.then(() => this.find(serverId))
    this.turn = mine.catch(() => undefined) // the caller gets the failure
    return mine
  }

  private async find(serverId: string): Promise<number> {
    const given = (await readOwnJson<Record<string, number>>(this.path)) ?? {}
    const known = given[serverId]
    if (known !== undefined) return known
    const taken = new Set(Object.values(given))
    for (let i = 0; i < SERVER_UIDS; i++) {
      const uid = FIRST_SERVER_UID + ((this.start + i) % SERVER_UIDS)
      if (taken.has(uid)) continue
      await writeOwnJson(this.path, { ...given, [serverId]: uid })
      return uid
    }
    throw new Error('Every user number for servers is given away')
  }
}
