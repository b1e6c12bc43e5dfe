import { createReadStream } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type FaultInjector, reset } from './fault-injector.ts'
import type { SimBackup } from './rows.ts'

const STEPS_PER_SECOND = 20

/** The same pieces, as slowly as the faults of the moment have it. */
export async function* paced(
  pieces: Iterable<Buffer> | AsyncIterable<Buffer>,
  injector: FaultInjector,
): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    for (let at = 0; at < piece.length; ) {
      const { slowBps } = injector.faults
      const step = slowBps === 0 ? piece.length : Math.max(1, Math.floor(slowBps / STEPS_PER_SECOND))
      yield piece.subarray(at, at + step)
      at += step
      if (slowBps > 0) await sleep(1000 / STEPS_PER_SECOND)
    }
  }
}

async function* withWrongByte(pieces: AsyncIterable<Buffer>, wrongAt: number): AsyncGenerator<Buffer> {
  let from = 0
  for await (const piece of pieces) {
    const at = wrongAt - from
    from += piece.length
    if (at >= 0 && at < piece.length) piece[at] = (piece[at] ?? 0) ^ 0xff
    yield piece
  }
}

/** Sends an archive with the faults that it may have. */
export async function sendArchive(
  response: ServerResponse,
  { file, bytes, name }: SimBackup & { readonly file: string },
  injector: FaultInjector,
): Promise<void> {
  const half = Math.floor(bytes / 2)
  response.setHeader('content-type', 'application/octet-stream')
  response.setHeader('content-disposition', `attachment; filename="${encodeURIComponent(name)}.tar.gz"`)
  if (injector.spend('truncateBackup')) {
    const isShort = injector.faults.truncateMode === 'short'
    response.setHeader('content-length', isShort ? half : bytes)
    await pipeline(paced(createReadStream(file, { end: half - 1 }), injector), response, { end: isShort })
    if (!isShort) reset(response)
    return
  }
  const whole = createReadStream(file)
  response.setHeader('content-length', bytes)
  await pipeline(paced(injector.spend('corruptBackup') ? withWrongByte(whole, half) : whole, injector), response)
}
