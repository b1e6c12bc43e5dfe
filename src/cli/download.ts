import { createWriteStream } from 'node:fs'
import { finished, pipeline } from 'node:stream/promises'
import { CliFailure } from './failure.ts'
import type { Run } from './run.ts'

/** Writes a file of the panel to where `--out` says, or to stdout as it is. */
export async function saveDownload(run: Run, content: AsyncIterable<Uint8Array>): Promise<void> {
  const path = run.args.text('out')
  if (path === undefined || path === '-') {
    const { stdout } = run.terminal
    for await (const piece of content) if (!stdout.write(piece)) await drained(stdout)
    return
  }
  try {
    await pipeline(content, createWriteStream(path, { mode: 0o600 }))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new CliFailure('FILE_UNREADABLE', `${path} cannot be written: ${reason}`, { cause: error })
  }
  run.notice(`written to ${path}`)
}

async function drained(stdout: NodeJS.WriteStream): Promise<void> {
  const end = new AbortController()
  const gone = finished(stdout, { signal: end.signal }).catch(() => undefined) // the terminal has been told of a lost reader
  await Promise.race([new Promise((resolve) => stdout.once('drain', resolve)), gone])
  end.abort()
}
