import type { ApiKey } from '../../../shared/api/api-keys.ts'
import { column, view, wide } from '../../kit/output/view.ts'

/** How API keys are shown. */
export const API_KEY_VIEW = view<ApiKey>([
  column('NAME', (row) => row.name),
  column('START', (row) => row.start),
  column('ENABLED', (row) => row.enabled),
  column('OWNER', (row) => row.user.username),
  column('EXPIRES', (row) => ({ time: row.expiresAt })),
  column('USED', (row) => ({ time: row.lastRequest })),
  column('ID', (row) => row.id),
  wide('REQUESTS', (row) => row.requestCount),
  wide('PERMISSIONS', (row) => (row.allPermissions ? 'all of its owner' : row.permissions.join(','))),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])
