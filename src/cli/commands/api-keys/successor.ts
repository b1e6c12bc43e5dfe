import * as api from '../../../shared/api/api-keys.ts'
import { parseDuration } from '../../../shared/kernel/clock.ts'
import type { Data } from '../../../shared/kernel/contract.ts'
import { usage } from '../../kit/failure.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'

const SHORTEST_SECONDS = 3600
const LONGEST_SECONDS = 31_536_000

/** A key with the rights, limits and lifetime of another; `permissions` in the place of its rights. */
export async function makeSuccessor(
  run: Run,
  key: api.ApiKey,
  permissions: readonly string[] = [],
): Promise<Data<typeof api.createApiKey>> {
  const rights =
    permissions.length > 0
      ? { permissions: [...permissions] }
      : { permissions: key.permissions, allPermissions: key.allPermissions }
  const expiresIn = lifetimeOf(run, key)
  return call(run, api.createApiKey, {
    params: {},
    body: {
      name: key.name,
      ...rights,
      rateLimitEnabled: key.rateLimitEnabled,
      rateLimitMax: key.rateLimitMax,
      rateLimitTimeWindow: key.rateLimitTimeWindow,
      ...(key.metadata === null ? {} : { metadata: key.metadata }),
      ...(expiresIn === undefined ? {} : { expiresIn }),
    },
  })
}

/** Lets a key work for `--overlap` from now at most; with `--overlap 0` it is revoked. Answers until when it works. */
export async function retire(run: Run, key: api.ApiKey, overlapMs: number): Promise<string | null> {
  const params = { keyId: key.id }
  if (overlapMs === 0) {
    await call(run, api.deleteApiKey, { params })
    return null
  }
  const end = new Date(run.clock.nowMs() + overlapMs).toISOString()
  if (key.expiresAt !== null && key.expiresAt <= end) return key.expiresAt
  return (await call(run, api.updateApiKey, { params, body: { expiresAt: end } })).expiresAt
}

/** How long both keys are to work. */
export function overlapOf(run: Run): number {
  const text = run.args.text('overlap') ?? '1h'
  const ms = parseDuration(text)
  if (ms === undefined) throw usage(`--overlap must be a duration such as 10m or 0, not '${text}'`)
  return ms
}

function lifetimeOf(run: Run, key: api.ApiKey): number | undefined {
  const text = run.args.text('expires')
  if (text !== undefined) {
    const ms = parseDuration(text)
    if (ms === undefined) throw usage(`--expires must be a duration such as 30d, not '${text}'`)
    return Math.round(ms / 1000)
  }
  if (key.expiresAt === null) return undefined
  const seconds = Math.round((Date.parse(key.expiresAt) - Date.parse(key.createdAt)) / 1000)
  return Math.min(Math.max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)
}
