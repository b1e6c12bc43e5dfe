import { readFile } from '../../../shared/api/files.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { ServerId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { subjectOf } from '../../kit/resource/actions.ts'
import { saveFile } from '../../kit/resource/download.ts'
import type { Run } from '../../kit/run.ts'
import { beforeNext, Incomplete } from './resume.ts'

/** `panel files get`. */
export const get: Action = async (run) => {
  const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const path = run.args.required('path')
  const out = run.args.word('file') ?? path.split('/').findLast((name) => name !== '')
  if (out === undefined) throw usage('the path names no file')
  await saveFile(run, async () => contentOf(run, { serverId: id as ServerId, path }), out) // the panel's own id of the server
  return 0
}

/** The bytes of a file, over as many connections as it takes; a file that has changed between two of them is an error. */
export async function* contentOf(
  run: Run,
  {
    serverId,
    path,
    seen,
  }: {
    readonly serverId: ServerId
    readonly path: string
    /** Called with the size and the etag of the file. */
    readonly seen?: (about: { readonly size: number | undefined; readonly etag: string | null }) => void
  },
): AsyncGenerator<Uint8Array> {
  const client = await run.client()
  let at = 0
  let size: number | undefined
  let etag: string | null = null
  for (let attempt = 0; ; attempt++) {
    try {
      const headers: Record<string, string> = etag === null ? {} : { range: `bytes=${at}-`, 'if-range': etag }
      const answer = await client.stream(
        readFile,
        { params: { serverId }, query: { path } },
        { headers, signal: run.signal },
      )
      const begins = answer.headers.get('content-range')?.startsWith(`bytes ${at}-`) === true
      if (etag !== null && (answer.status !== 206 || !begins)) {
        throw new CliFailure('OPERATION_FAILED', 'the file was changed while it was downloaded', {
          hint: 'run it again',
        })
      }
      size ??= lengthOf(answer.headers)
      etag = answer.headers.get('etag')
      seen?.({ size, etag })
      for await (const piece of answer.content) {
        at += piece.length
        attempt = 0
        yield piece
      }
      if (size === undefined || at === size) return
      throw new Incomplete()
    } catch (error) {
      // Cut when nothing was left: the panel sends the last bytes only after it has checked all of them.
      if (at === size || isAtEnd(error, at)) return
      await beforeNext(run, error, { attempt: etag === null ? Number.POSITIVE_INFINITY : attempt, at })
    }
  }
}

/** Whether what was refused is the rest of a file that has no more bytes; one that has changed is no such refusal. */
function isAtEnd(error: unknown, at: number): boolean {
  return error instanceof PanelError && error.code === 'RANGE_NOT_SATISFIABLE' && at > 0 && error.meta['size'] === at
}

function lengthOf(headers: { get(name: string): string | null }): number | undefined {
  const length = headers.get('content-length')
  return length === null ? undefined : Number(length)
}
