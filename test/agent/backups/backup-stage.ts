import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type * as backups from '../../../src/shared/protocol/backups.ts'
import type { RequestDefinition, ResultOf } from '../../../src/shared/protocol/define.ts'
import { AgentStage, gameSpec } from '../agent-stage.ts'

/** One backup as a request names it. */
export interface NamedBackup {
  readonly store: { readonly kind: 'local'; readonly storeId: string; readonly folder: string | null }
  readonly ownerId: string
  readonly backupId: string
  readonly kind: backups.BackupKind
}

export const STORE = { kind: 'local', storeId: 'bst_local', folder: null } as const

/** An agent with a server that has a folder, and requests of backups as a daemon makes them. */
export class BackupStage {
  readonly stage: AgentStage
  readonly serverId: string
  #backups = 0

  static async enter(serverId = 'srv_one', diskMb = 0): Promise<BackupStage> {
    const stage = await AgentStage.enter()
    await stage.startAgent()
    const spec = gameSpec(serverId, 1)
    await stage.peer.order(serverId, 1, { op: 'apply', spec: { ...spec, limits: { ...spec.limits, diskMb } } })
    const made = new BackupStage(stage, serverId)
    await mkdir(made.folder, { recursive: true, mode: 0o700 })
    return made
  }

  private constructor(stage: AgentStage, serverId: string) {
    this.stage = stage
    this.serverId = serverId
  }

  /** The server's own folder. */
  get folder(): string {
    return join(this.stage.dataDir, 'servers', this.serverId)
  }

  /** What the store has of the server. */
  get stored(): string {
    return join(this.stage.dataDir, 'backups', STORE.storeId, this.serverId)
  }

  name(kind: backups.BackupKind): NamedBackup {
    return { store: STORE, ownerId: this.serverId, backupId: `bak_${++this.#backups}`, kind }
  }

  /** Asks and expects an answer. */
  async ask<D extends RequestDefinition>(
    definition: D,
    input: Record<string, unknown>,
    withinMs?: number,
  ): Promise<ResultOf<D>> {
    // What does not fit is refused by the agent.
    const reply = await this.stage.peer.request({ op: definition.op, ...input } as never, withinMs)
    if (reply.error !== null) throw new Error(`${reply.error.code}: ${reply.error.message}`)
    return definition.result.parse(reply.result) as ResultOf<D>
  }

  /** The code of the refusal. */
  async refused(definition: RequestDefinition, input: Record<string, unknown>): Promise<string | undefined> {
    const reply = await this.stage.peer.request({ op: definition.op, ...input } as never) // as above
    return reply.error?.code
  }

  async leave(): Promise<void> {
    await this.stage.leave([this.serverId])
  }
}

/** What `backups.create` has beside the backup's name. */
export function creation(change: Record<string, unknown> = {}) {
  return { key: freshKey(), compression: 'gzip', ignored: [], extras: [], about: {}, maxStoredBytes: null, ...change }
}

/** What `backups.restore` has beside the backup's name: all of it. */
export function restoring(change: Record<string, unknown> = {}) {
  return { key: freshKey(), paths: null, replace: true, keepOthers: false, denied: [], ...change }
}

export function freshKey(): string {
  return randomBytes(16).toString('hex')
}

export function freshTicket(): string {
  return randomBytes(32).toString('base64url')
}
