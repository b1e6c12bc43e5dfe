import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Settings } from '../../../core/settings.ts'

const MIB = 1024 * 1024

/** The largest upload in bytes, as it is set now. */
export function uploadLimitBytes(settings: Pick<Settings, 'get'>): number {
  return settings.get('files.maxUploadMb') * MIB
}

/** Refuses an upload whose length is known beforehand with FILE_TOO_LARGE. */
export function refuseLargeUpload(settings: Pick<Settings, 'get'>, bytes: number): void {
  const maxBytes = uploadLimitBytes(settings)
  if (bytes > maxBytes) throw tooLarge(maxBytes)
}

/** Passes an upload on piece by piece and fails with FILE_TOO_LARGE before the byte that is too many. */
export async function* limitUpload(
  settings: Pick<Settings, 'get'>,
  pieces: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const maxBytes = uploadLimitBytes(settings)
  let bytes = 0
  for await (const piece of pieces) {
    bytes += piece.byteLength
    if (bytes > maxBytes) throw tooLarge(maxBytes)
    yield piece
  }
}

function tooLarge(maxBytes: number): PanelError {
  return new PanelError('FILE_TOO_LARGE', `An upload may have ${maxBytes / MIB} MiB at most`, { meta: { maxBytes } })
}
