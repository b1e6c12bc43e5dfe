import type { Clock } from '../../shared/kernel/time.ts'
import { SFTP_LIMITS, type SftpCounts, type SftpGrant } from '../../shared/protocol/sftp.ts'
import { AgentFailure } from '../failure.ts'
import { PathRules } from '../files/rules.ts'
import { type AgentLog, errorText } from '../logger.ts'
import type { GameServer } from '../server/server.ts'
import { type PanelClient, Refusal } from './panel-client.ts'

/** Changes of this time are reported together. */
const TOGETHER_MS = 1000
const RETRY_MS = 5000
/** So long the end of a session is kept for a daemon that is away. */
const KEPT_MS = 3_600_000

/** What a session is made of. */
export interface SessionParts {
  readonly sessionId: string
  readonly grant: SftpGrant
  readonly server: GameServer
  readonly panel: PanelClient
  readonly clock: Clock
  readonly log: AgentLog
  /** Aborts when the agent ends. */
  readonly ending: AbortSignal
}

/** Somebody who has come in: what they may do now, what they have done, and how it ends. */
export class SftpSession {
  readonly id: string
  readonly server: GameServer
  readonly #parts: SessionParts
  readonly #over = new AbortController()
  readonly counts: { -readonly [K in keyof SftpCounts]: number } = {
    filesRead: 0,
    filesWritten: 0,
    bytesRead: 0,
    bytesWritten: 0,
    removed: 0,
    renamed: 0,
    foldersMade: 0,
    linksMade: 0,
    changed: 0,
    commands: 0,
  }
  #grant: SftpGrant
  #grantedMs: number
  #rules: PathRules | undefined
  #folders = new Set<string>()
  #allFolders = true
  #reporting: Promise<void> | undefined
  #reason = ''

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.id = parts.sessionId
    this.server = parts.server
    this.#grant = parts.grant
    this.#grantedMs = parts.clock.monotonicMs()
  }

  /** Aborts when the session is over: its reason is a sentence for its user. */
  get over(): AbortSignal {
    return this.#over.signal
  }

  get reason(): string {
    return this.#reason
  }

  /** What the daemon says of its rights, from now on. */
  granted(grant: SftpGrant): void {
    this.#grant = grant
    this.#grantedMs = this.#parts.clock.monotonicMs()
    this.#rules = undefined
  }

  /** Ends the session; a second time changes nothing. */
  end(reason: string): void {
    if (this.#over.signal.aborted) return
    this.#reason = reason
    this.#over.abort()
  }

  /** Whether its user may do something now; a session of which nobody has heard for too long may do nothing. */
  may(right: 'read' | 'write' | 'consoleRead' | 'consoleWrite'): boolean {
    if (this.#over.signal.aborted) return false
    if (this.#parts.clock.monotonicMs() - this.#grantedMs > SFTP_LIMITS.unaskedMs) {
      this.end('The panel cannot be reached, so nobody can say what you may do; try again later')
      return false
    }
    return this.#grant[right]
  }

  /** Refuses what its user may not do now. */
  need(right: 'read' | 'write'): void {
    if (this.may(right)) return
    if (this.over.aborted) throw new AgentFailure('DENIED', this.#reason)
    const missing = right === 'read' ? 'file.sftp and file.read' : 'file.sftp and file.write, without a read-only key'
    throw new AgentFailure('DENIED', `You may not do this on this server: it needs ${missing}`)
  }

  /** Which paths its user gets. */
  get rules(): PathRules {
    const { denied, filePaths } = this.#grant
    this.#rules ??= new PathRules(this.server.spec.mounts ?? [], denied, filePaths)
    return this.#rules
  }

  /** Something in this folder is another one now; reported within about a second. */
  changed(folder: string): void {
    if (this.#folders.size < SFTP_LIMITS.folders) this.#folders.add(folder)
    else if (!this.#folders.has(folder)) this.#allFolders = false
    this.#reporting ??= this.#reportLater()
  }

  /** Reports the end with all counts; tries again for an hour while the daemon is away. */
  async close(): Promise<void> {
    const { clock, log, ending } = this.#parts
    this.end('The connection has ended')
    await this.#reporting
    for (const sinceMs = clock.monotonicMs(); ; ) {
      try {
        return await this.#report(this.#reason)
      } catch (error) {
        const isFinal = error instanceof Refusal || clock.monotonicMs() - sinceMs > KEPT_MS
        if (isFinal || ending.aborted) {
          return void log.warn({ sessionId: this.id, err: errorText(error) }, 'end of an SFTP session was not reported')
        }
      }
      await clock.sleep(RETRY_MS, ending)
    }
  }

  async #reportLater(): Promise<void> {
    const { clock, log } = this.#parts
    await clock.sleep(TOGETHER_MS, this.over)
    this.#reporting = undefined
    if (this.over.aborted) return // the report of the end says it
    await this.#report(null).catch((error: unknown) => {
      log.info({ sessionId: this.id, err: errorText(error) }, 'changed folders of an SFTP session were not reported')
    })
  }

  async #report(ended: string | null): Promise<void> {
    const folders = [...this.#folders]
    const allFolders = this.#allFolders
    this.#folders = new Set()
    this.#allFolders = true
    try {
      await this.#parts.panel.report(this.id, { counts: { ...this.counts }, folders, allFolders, ended })
    } catch (error) {
      for (const folder of folders) this.#folders.add(folder)
      this.#allFolders = allFolders
      throw error
    }
  }
}
