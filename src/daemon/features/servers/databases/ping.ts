import type { DatabaseHostPing } from '../../../../shared/api/database-hosts.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { DatabaseDeps } from './deps.ts'
import { withHost } from './host-connection.ts'
import { HostFailure } from './host-failure.ts'
import type { HostRow } from './host-rows.ts'
import { addressOf } from './secrets.ts'

/** Signs in to the host and asks its version. */
export async function pingHost(
  { clock, vault }: Pick<DatabaseDeps, 'clock' | 'vault'>,
  row: HostRow,
  signal: AbortSignal,
): Promise<DatabaseHostPing> {
  const begin = clock.monotonicMs()
  try {
    return await withHost({ clock, address: addressOf(vault, row), signal }, async (_host, version) => {
      return { ok: true, success: true, latencyMs: Math.round(clock.monotonicMs() - begin), version }
    })
  } catch (error) {
    const failed = { ok: false, success: false, latencyMs: null }
    if (error instanceof HostFailure) return { ...failed, reason: error.reason, error: error.message }
    if (error instanceof PanelError && error.code === 'CREDENTIAL_ENCRYPTION_KEY_MISSING') {
      return { ...failed, reason: 'key', error: error.message }
    }
    throw error
  }
}
