import { z } from 'zod'
import type { DirectorySource } from '../../../../shared/api/migration.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { SourceAccess } from './deps.ts'
import type { MigrationRow } from './rows.ts'

/** How a source is reached, as it is sealed in the row of a migration. */
const Sealed = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('panel'),
    url: z.string(),
    key: z.string(),
    clientApiKey: z.string().nullable(),
    insecure: z.boolean(),
  }),
  z.object({ kind: z.literal('directory'), nodeId: z.string(), path: z.string() }),
])

const placeOf = (jobId: string): string => `migration_job.keys ${jobId}`

/** Seals what opens a source; fails with CREDENTIAL_ENCRYPTION_KEY_MISSING. It opens for this migration alone. */
export function sealAccess(vault: Vault, jobId: string, access: SourceAccess): string {
  return vault.seal(placeOf(jobId), JSON.stringify(access))
}

/** Opens it again; VALIDATION_ERROR where the keys are no longer kept. */
export function openAccess(vault: Vault, { id, keys }: Pick<MigrationRow, 'id' | 'keys'>): SourceAccess {
  if (keys === null) {
    throw new PanelError('VALIDATION_ERROR', 'The keys of the source are no longer kept: give them again to go on')
  }
  return Sealed.parse(JSON.parse(vault.open(placeOf(id), keys)))
}

/** How a request names a source. */
interface AccessBody {
  readonly url?: string | undefined
  readonly key?: string | undefined
  readonly clientApiKey?: string | undefined
  readonly insecure?: boolean
  readonly source?: DirectorySource | undefined
}

/** By what the source is reached, and how lists call it. */
export function accessOf({ url, key, clientApiKey, insecure = false, source }: AccessBody): {
  access: SourceAccess
  sourceUrl: string
} {
  if (source !== undefined) {
    if (url !== undefined || key !== undefined) throw fieldError('body.source', 'and url exclude each other')
    return { access: source, sourceUrl: `directory://${source.nodeId}${source.path}` }
  }
  if (url === undefined) throw fieldError('body.url', 'is required')
  if (key === undefined) throw fieldError('body.key', 'is required')
  const access = { kind: 'panel', url, key, clientApiKey: clientApiKey ?? null, insecure } as const
  return { access, sourceUrl: url }
}
