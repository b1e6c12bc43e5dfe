import type { Settings } from '../../../core/settings.ts'

const MIB = 1024 * 1024

/** The largest upload by a form in bytes, as it is set now. */
export function uploadLimitBytes(settings: Pick<Settings, 'get'>): number {
  return settings.get('files.maxUploadMb') * MIB
}
