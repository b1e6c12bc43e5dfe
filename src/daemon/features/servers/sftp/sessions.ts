import * as api from '../../../../shared/api/sftp-sessions.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import type { EventType } from '../../../../shared/kernel/events.ts'
import { newId, SftpSessionId } from '../../../../shared/kernel/ids.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { type SftpState, updateSftpSessions } from '../../../../shared/protocol/sftp.ts'
import type { Origin } from '../../../access/caller.ts'
import { recordChange, unauthenticated } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { type Authenticated, authenticate, partsOfUsername } from './authenticate.ts'
import type { SftpDeps } from './deps.ts'
import { type GrantNow, grantOf, rightsOn } from './grants.ts'
import { openSessions, type SftpSessionRow } from './rows.ts'

/** After these the rights of somebody who is in may be other ones; a change of credentials says so by itself. */
const CHANGES: ReadonlySet<EventType> = new Set([
  'server_deleted',
  'server_suspended',
  'server_unsuspended',
  'server_updated',
  'template_updated',
  'user_deleted',
  'user_updated',
] satisfies EventType[])
/** Several changes of one transaction, and of those that follow at once, are looked at together. */
const TOGETHER_MS = 30
const MOST_CANDIDATES = 50
/** A row that is younger may not be known to its agent yet. */
const SETTLE_MS = 60_000

type Opened = Answer<typeof api.openSftpSession>

/** Who has come in over SSH on the nodes, and what they may do: kept in rows, so that sessions outlive a restart of the daemon. */
export class SftpSessions {
  readonly #deps: SftpDeps
  /** What each agent was sent last. */
  readonly #sent = new Map<string, { readonly row: SftpSessionRow; readonly text: string }>()
  readonly #stopping: AbortSignal
  #isDue = false
  #working: Promise<void> = Promise.resolve()

  constructor(deps: SftpDeps & { readonly bus: SftpDeps['bus'] }, stopping: AbortSignal) {
    this.#deps = deps
    this.#stopping = stopping
    deps.credentials.onChange(() => this.#lookAgain())
    deps.bus.listen(({ type }) => {
      if (CHANGES.has(type)) this.#lookAgain()
    })
  }

  /** Lets somebody in, or says why not. */
  async open(nodeId: string, asked: Input<typeof api.openSftpSession>['body'], requestId: string): Promise<Opened> {
    const origin = { ip: asked.address, userAgent: asked.client, requestId }
    const who = await authenticate(this.#deps, asked, origin)
    if (who === undefined) return { isKnown: false, refusal: null, session: null }
    if (asked.credential.method === 'key' && !asked.credential.isSigned) {
      return { isKnown: true, refusal: null, session: null }
    }
    const place = who.refusal ?? (await this.#placeOf(nodeId, who, partsOfUsername(asked.username).server))
    if (typeof place === 'string') return { isKnown: true, refusal: place, session: null }
    const { serverId, grant } = place
    const row = await this.#deps.db.write((tx) => this.#insert(tx, { nodeId, who, serverId, origin }))
    this.#sent.set(row.id, { row, text: JSON.stringify(grant) })
    // What has changed since the rights were read is reported like any other change.
    this.#lookAgain()
    return {
      isKnown: true,
      refusal: null,
      session: { sessionId: SftpSessionId.parse(row.id), userId: who.userId, serverId, grant },
    }
  }

  /** The rights of the sessions of an agent, which has no others: rows of those that it does not name are closed. */
  async check(nodeId: string, sessionIds: readonly string[]): Promise<{ sessions: SftpState[] }> {
    const { db, clock } = this.#deps
    const rows = await openSessions(db.read, nodeId)
    const named = new Set(sessionIds)
    const settledMs = clock.nowMs() - SETTLE_MS
    for (const row of rows) {
      if (!named.has(row.id) && Date.parse(row.createdAt) < settledMs) {
        await this.#close(row, { counts: null, ended: 'The agent has lost the session: it was restarted' })
      }
    }
    const byId = new Map(rows.map((row) => [row.id, row]))
    const sessions: SftpState[] = []
    for (const sessionId of sessionIds) {
      const row = byId.get(sessionId)
      const state = row === undefined ? GONE : await this.#grant(row)
      if (row !== undefined) this.#sent.set(row.id, { row, text: JSON.stringify(state.grant) })
      sessions.push({ sessionId, ...state })
    }
    return { sessions }
  }

  /** What an agent says of a session. One that is unknown by now leaves nothing. */
  async report(nodeId: string, sessionId: string, report: Input<typeof api.reportSftpSession>['body']): Promise<void> {
    const { db, bus } = this.#deps
    const row =
      (await db.read.selectFrom('sftpSession').selectAll().where('id', '=', sessionId).executeTakeFirst()) ??
      this.#sent.get(sessionId)?.row
    if (row === undefined || row.nodeId !== nodeId) return
    const { folders, allFolders, counts, ended } = report
    if (folders.length > 0) {
      const data = { action: 'sftp' as const, folders, allFolders, changedBy: row.userId }
      await db.write((tx) => bus.append(tx, { type: 'server_files_changed', serverId: row.serverId, data }))
    }
    if (ended !== null) await this.#close(row, { counts, ended })
  }

  /** A session of this node with its rights now; `undefined` when it has none. */
  async find(nodeId: string, sessionId: string): Promise<{ row: SftpSessionRow; now: GrantNow } | undefined> {
    const row = await this.#deps.db.read
      .selectFrom('sftpSession')
      .selectAll()
      .where('id', '=', sessionId)
      .where('nodeId', '=', nodeId)
      .executeTakeFirst()
    return row === undefined ? undefined : { row, now: await this.#grant(row) }
  }

  /** Has the rights of all sessions looked at, and their agents sent what is another one now. */
  changed(): void {
    this.#lookAgain()
  }

  /** Resolves when what has changed until now was reported. */
  async settled(): Promise<void> {
    await this.#working
  }

  #lookAgain(): void {
    if (this.#isDue || this.#stopping.aborted || this.#sent.size === 0) return
    this.#isDue = true
    this.#working = this.#working
      .then(() => this.#deps.clock.sleep(TOGETHER_MS, this.#stopping))
      .then(async () => {
        this.#isDue = false
        if (!this.#stopping.aborted) await this.#notify()
      })
    this.#working = this.#working.catch((err: unknown) => {
      this.#deps.log.error(
        { err },
        'cannot look at the rights of SFTP sessions; their agents ask for them by themselves',
      )
    })
  }

  async #notify(): Promise<void> {
    const { db, gateway, log } = this.#deps
    // Those of before the rows are read: whoever comes in meanwhile has a row that is not among them.
    const sent = [...this.#sent]
    const rows = new Map((await openSessions(db.read)).map((row) => [row.id, row]))
    const byNode = new Map<string, SftpState[]>()
    for (const [sessionId, { row: known, text }] of sent) {
      const row = rows.get(sessionId)
      const state = row === undefined ? GONE : await this.#grant(row)
      const fresh = JSON.stringify(state.grant)
      if (fresh === text || !this.#sent.has(sessionId)) continue
      this.#sent.set(sessionId, { row: known, text: fresh })
      byNode.set(known.nodeId, [...(byNode.get(known.nodeId) ?? []), { sessionId, ...state }])
    }
    for (const [nodeId, sessions] of byNode) {
      for (let at = 0; at < sessions.length; at += 500) {
        gateway
          .request(nodeId, updateSftpSessions, { sessions: sessions.slice(at, at + 500) })
          .catch((err: unknown) => {
            log.debug({ err, nodeId }, 'changed rights of SFTP sessions did not reach a node; its agent asks for them')
          })
      }
    }
  }

  async #grant(row: SftpSessionRow): Promise<GrantNow> {
    const { db, clock } = this.#deps
    return await grantOf({ q: db.read, now: now(clock) }, row)
  }

  /** The server that is meant, of those of the node on which the account may do something. */
  async #placeOf(nodeId: string, who: Authenticated, named: string) {
    const { db, clock } = this.#deps
    const at = { q: db.read, now: now(clock) }
    const candidates = await db.read
      .selectFrom('server')
      .select(['id', 'name'])
      .where('deletingAt', 'is', null)
      .where((eb) => eb.or([eb('id', '=', named), eb.and([eb('name', '=', named), eb('nodeId', '=', nodeId)])]))
      .limit(MOST_CANDIDATES)
      .execute()
    const reached: { serverId: string; grant: NonNullable<GrantNow['grant']> }[] = []
    let refusal =
      'There is no such server on this node, or this account has no right to it; the user name is name.<server>, with the id of the server'
    for (const { id: serverId } of candidates) {
      if (who.serverId !== null && who.serverId !== serverId) continue
      const { grant, reason } = await rightsOn(at, { ...who, serverId, nodeId })
      if (grant !== null) reached.push({ serverId, grant })
      else refusal = reason
    }
    const [first, second] = reached
    if (second !== undefined) return 'Several servers of this node have that name: use the id of the server'
    return first ?? refusal
  }

  async #insert(
    tx: Tx,
    {
      nodeId,
      who,
      serverId,
      origin,
    }: { readonly nodeId: string; readonly who: Authenticated; readonly serverId: string; readonly origin: Origin },
  ): Promise<SftpSessionRow> {
    const { userId, method, credential, isReadOnly } = who
    const row = {
      ...{ id: newId('sfs', this.#deps.clock), userId, serverId, nodeId, method, credential, isReadOnly },
      ...{ ipAddress: origin.ip, client: origin.userAgent, createdAt: tx.now, endedBecause: null },
    }
    await tx.q.insertInto('sftpSession').values(row).execute()
    if (method === 'token') {
      await tx.q.updateTable('sftpToken').set({ lastUsedAt: tx.now }).where('id', '=', credential).execute()
    }
    if (method === 'key') {
      await tx.q.updateTable('sshKey').set({ lastUsedAt: tx.now }).where('id', '=', credential).execute()
    }
    const details = { sessionId: row.id, method, readOnly: isReadOnly === 1, nodeId }
    const by = { deps: this.#deps, principal: unauthenticated(origin, userId), endpoint: api.openSftpSession }
    await recordChange(tx, by, { audit: { resourceId: serverId, details } })
    return row
  }

  async #close(
    row: SftpSessionRow,
    { counts, ended }: { readonly counts: object | null; readonly ended: string },
  ): Promise<void> {
    const { db, clock } = this.#deps
    const wasSent = this.#sent.delete(row.id)
    const origin = { ip: row.ipAddress, userAgent: row.client, requestId: row.id }
    await db.write(async (tx) => {
      const gone = await tx.q.deleteFrom('sftpSession').where('id', '=', row.id).executeTakeFirst()
      // A report that was sent twice leaves one record; the row may also have gone with its user or server.
      if (gone.numDeletedRows === 0n && !wasSent) return
      const seconds = Math.max(0, Math.round((clock.nowMs() - Date.parse(row.createdAt)) / 1000))
      const details = { sessionId: row.id, method: row.method, seconds, reason: row.endedBecause ?? ended, ...counts }
      const user = await tx.q.selectFrom('user').select('id').where('id', '=', row.userId).executeTakeFirst()
      const by = { deps: this.#deps, principal: unauthenticated(origin, user?.id), endpoint: api.reportSftpSession }
      await recordChange(tx, by, { audit: { resourceId: row.serverId, details } })
    })
  }
}

const GONE: GrantNow = { grant: null, reason: 'The panel does not know this session any more' }
