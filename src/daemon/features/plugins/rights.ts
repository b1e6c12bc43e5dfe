import { grants, type Permission } from '../../../shared/kernel/permissions.ts'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { Caller, Credentials } from '../../access/caller.ts'
import type { Db, Tx } from '../../db/db.ts'
import { createApiKeyRow, renewApiKeyRow } from '../accounts/auth/api-key-rows.ts'

/** Requests that a plugin may make per minute. */
const REQUESTS_PER_MINUTE = 1200

/**
 * What plugins may do. Each enabled plugin has an API key of the user who enabled it, with the permissions that it was given:
 * so it never may more than that user may now, its doings stand in the audit log as those of the key, and whoever deletes or
 * disables the key ends its rights. Its token never leaves this object but for requests inside the daemon.
 */
export class PluginRights {
  readonly #deps: { db: Db; clock: Clock; credentials: Credentials }
  readonly #tokens = new Map<string, string>()

  constructor(deps: { db: Db; clock: Clock; credentials: Credentials }) {
    this.#deps = deps
  }

  /** Makes the key, in the transaction that enables the plugin. Whether the user may give that much was checked before. */
  async issue(tx: Tx, of: { plugin: string; userId: string; permissions: readonly string[] }): Promise<string> {
    const { plugin, userId, permissions } = of
    const { id, token } = await createApiKeyRow(tx, this.#deps.clock, {
      userId,
      name: `plugin ${plugin}`,
      allPermissions: false,
      permissions,
      expiresAt: null,
      metadata: { plugin },
      rateLimitEnabled: true,
      rateLimitMax: REQUESTS_PER_MINUTE,
      rateLimitTimeWindow: 60_000,
    })
    tx.onCommit(() => this.#tokens.set(plugin, token))
    return id
  }

  /** Deletes the key. */
  async revoke(tx: Tx, plugin: string, keyId: string | null): Promise<void> {
    if (keyId !== null) await tx.q.deleteFrom('apiKey').where('id', '=', keyId).execute()
    tx.onCommit(() => {
      this.#tokens.delete(plugin)
      this.#deps.credentials.changed()
    })
  }

  /** After a start of the daemon: nobody knows the old token any more, so the key gets another one. */
  async renew(plugin: string, keyId: string | null): Promise<void> {
    if (keyId === null || this.#tokens.has(plugin)) return
    await this.#deps.db.write(async (tx) => {
      const token = await renewApiKeyRow(tx, keyId)
      if (token === undefined) return
      tx.onCommit(() => {
        this.#tokens.set(plugin, token)
        this.#deps.credentials.changed()
      })
    })
  }

  /** The token of the plugin's key; `undefined`: it has no rights. */
  token(plugin: string): string | undefined {
    return this.#tokens.get(plugin)
  }

  /** Whether the plugin holds the permission panel-wide now. */
  async holds(plugin: string, permission: Permission): Promise<boolean> {
    const token = this.#tokens.get(plugin)
    if (token === undefined) return false
    const caller: Caller | string = await this.#deps.credentials.resolve(token)
    return typeof caller !== 'string' && grants(caller.permissions, permission)
  }
}
