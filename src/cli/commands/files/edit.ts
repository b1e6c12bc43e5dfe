import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { contentOf } from './get.ts'
import { sendFile } from './put.ts'
import { lastName, placeOf } from './remote.ts'

const MOST_BYTES = 64 * 1024 * 1024

/** `panel files edit`: what was changed on the server meanwhile is not replaced, and what was typed is kept. */
export const edit: Action = async (run) => {
  const editor = run.args.text('editor') ?? run.env.editor ?? 'vi'
  const place = await placeOf(run, run.args.required('place'))
  const folder = await mkdtemp(join(tmpdir(), 'panel-edit-'))
  const local = join(folder, lastName(place.path).replace(/[^\w.-]/g, '_') || 'file')
  let keeps = false
  try {
    const { bytes, etag } = await read()
    await writeFile(local, bytes, { mode: 0o600 })
    await runEditor(editor, local)
    const after = await readFile(local)
    if (after.equals(bytes)) {
      run.notice('nothing was changed')
      return 0
    }
    keeps = true
    const headers = etag === null ? { 'if-none-match': '*' } : { 'if-match': etag }
    const written = await sendFile(run, { ...place, headers }, local)
    keeps = false
    if (run.out.machine) await run.out.value(written)
    else run.notice(`${place.server}:${place.path}: ${written.size} bytes`)
    return 0
  } catch (error) {
    if (!keeps) throw error
    run.notice(`what you have written is kept in ${local}`)
    if (!(error instanceof PanelError) || error.code !== 'ETAG_MISMATCH') throw error
    throw new PanelError('ETAG_MISMATCH', 'The file was changed on the server while you edited it; nothing was written')
  } finally {
    if (!keeps) await rm(folder, { recursive: true, force: true })
  }

  async function read(): Promise<{ bytes: Buffer; etag: string | null }> {
    const pieces: Uint8Array[] = []
    let etag: string | null = null
    let size = 0
    try {
      const seen = (about: { readonly etag: string | null }): void => {
        etag = about.etag
      }
      for await (const piece of contentOf(run, { ...place, seen })) {
        size += piece.length
        if (size > MOST_BYTES) throw usage(`the file is larger than ${MOST_BYTES} bytes`, 'panel files cp')
        pieces.push(Uint8Array.from(piece))
      }
    } catch (error) {
      const isNew = error instanceof PanelError && error.code === 'FILE_NOT_FOUND' && run.args.flag('create')
      if (!isNew) throw error
    }
    return { bytes: Buffer.concat(pieces), etag }
  }
}

/** The editor of a person, as their shell would start it: it may have words of its own. */
async function runEditor(editor: string, file: string): Promise<void> {
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' })
  const [code] = (await once(child, 'close').catch((cause: unknown) => {
    throw new CliFailure('HOST_PRECONDITION', `the editor ${editor} cannot be started`, { cause })
  })) as [number | null]
  if (code !== 0)
    throw new CliFailure('OPERATION_FAILED', `the editor ended with ${code ?? 'a signal'}; nothing was written`)
}
