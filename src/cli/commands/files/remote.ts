import { type FileEntry, listFiles, statFile } from '../../../shared/api/files.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import { type GlobPart, hasGlob, matchesGlob, parseGlob, plainOf } from '../../../shared/kernel/glob.ts'
import type { ServerId } from '../../../shared/kernel/ids.ts'
import { pathText } from '../../../shared/kernel/path-text.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { patiently } from './resume.ts'

const PAGE = 10_000
const MOST_MATCHES = 100_000

/** A path on a server. */
export interface RemotePlace {
  readonly serverId: ServerId
  /** As it was given. */
  readonly server: string
  /** From the folder of the server on: begins with a slash. */
  readonly path: string
}

/** `server:path` in two parts; `undefined` for a local path, which has no colon, or a slash before it. */
export function splitPlace(word: string): { readonly server: string; readonly pattern: string } | undefined {
  const colon = word.indexOf(':')
  if (colon <= 0 || word.slice(0, colon).includes('/')) return undefined
  return { server: word.slice(0, colon), pattern: bytesIn(word.slice(colon + 1)) }
}

/** The places that words such as `server:logs/*.log` mean; a pattern that nothing fits is exit 6. */
export async function placesOf(run: Run, words: readonly string[]): Promise<RemotePlace[]> {
  const places: RemotePlace[] = []
  for (const word of words) {
    const { server, serverId, pattern } = await serverIn(run, word)
    if (!pattern.split('/').some(hasGlob)) places.push({ server, serverId, path: plainPath(pattern) })
    else places.push(...(await matching(run, { server, serverId, pattern, word })))
  }
  return places
}

/** The one place that a word means; a pattern stands for itself only when one thing fits. */
export async function placeOf(run: Run, word: string): Promise<RemotePlace> {
  const [place, ...others] = await placesOf(run, [word])
  if (place === undefined || others.length > 0) throw usage(`${word} means ${others.length + 1} things; name one`)
  return place
}

/** What is there; `undefined` when nothing is. */
export async function entryAt(run: Run, { serverId, path }: RemotePlace): Promise<FileEntry | undefined> {
  const client = await run.client()
  try {
    const input = { params: { serverId }, query: { path } }
    return await patiently(run, () => client.call(statFile, input, { signal: run.signal }))
  } catch (error) {
    if (error instanceof PanelError && error.code === 'FILE_NOT_FOUND') return undefined
    throw error
  }
}

/** All entries of a folder, page by page. */
export async function* entriesOf(run: Run, { serverId, path }: RemotePlace): AsyncGenerator<FileEntry> {
  const client = await run.client()
  let after: string | undefined
  for (;;) {
    const query = { path, limit: PAGE, ...(after === undefined ? {} : { after }) }
    const input = { params: { serverId }, query }
    const page = await patiently(run, () => client.call(listFiles, input, { signal: run.signal }))
    yield* page.files
    if (page.next === null) return
    after = page.next
  }
}

/** A name in a folder of a server. */
export function within(place: RemotePlace, name: string): RemotePlace {
  return { ...place, path: `${place.path === '/' ? '' : place.path}/${name}` }
}

/** The last name of a path; '' for the folder of the server. */
export function lastName(path: string): string {
  return path.split('/').findLast((name) => name !== '' && name !== '.') ?? ''
}

async function serverIn(run: Run, word: string): Promise<{ server: string; serverId: ServerId; pattern: string }> {
  const split = splitPlace(word) ?? { server: word, pattern: '/' }
  const { id } = await resolve(run, 'server', split.server)
  return { ...split, serverId: id as ServerId } // the panel's own id of the server
}

async function matching(
  run: Run,
  { server, serverId, pattern, word }: { server: string; serverId: ServerId; pattern: string; word: string },
): Promise<RemotePlace[]> {
  let found: RemotePlace[] = [{ server, serverId, path: '/' }]
  const names = pattern.split('/').filter((name) => name !== '' && name !== '.')
  for (const [number, name] of names.entries()) {
    const glob = parseGlob(name)
    const plain = plainOf(glob)
    const isLast = number === names.length - 1
    const next: RemotePlace[] = []
    for (const place of found) {
      if (plain !== undefined) {
        const there = within(place, plain)
        if (!isLast || (await entryAt(run, there)) !== undefined) next.push(there)
        continue
      }
      for await (const entry of foldersOrNothing(run, place)) {
        if (!fits(glob, entry.name) || (!isLast && !entry.isDirectory)) continue
        next.push(within(place, entry.name))
        if (next.length > MOST_MATCHES) throw usage(`${word} means more than ${MOST_MATCHES} things`)
      }
    }
    found = next
  }
  if (found.length > 0) return found
  throw new CliFailure('NOT_FOUND', `nothing matches ${word}`)
}

/** A place on the way that is no folder has nothing that could match. */
async function* foldersOrNothing(run: Run, place: RemotePlace): AsyncGenerator<FileEntry> {
  try {
    yield* entriesOf(run, place)
  } catch (error) {
    const isNone =
      error instanceof PanelError && (error.code === 'FILE_NOT_FOUND' || error.code === 'FILE_PATH_INVALID')
    if (!isNone) throw error
  }
}

/** As in a shell, names that begin with a dot want a pattern that does. */
function fits(glob: readonly GlobPart[], name: string): boolean {
  const [first] = glob
  const asksDot = first?.kind === 'char' && first.char === '.'
  return (!name.startsWith('.') || asksDot) && matchesGlob(glob, name)
}

function plainPath(pattern: string): string {
  const names = pattern.split('/').filter((name) => name !== '' && name !== '.')
  return `/${names.map((name) => plainOf(parseGlob(name)) ?? name).join('/')}`
}

/** `\xff`, as listings show a byte that is no text, becomes that byte. */
function bytesIn(text: string): string {
  const parts = text.split(/\\x([89a-f][\da-f])/i)
  if (parts.length === 1) return text
  const bytes = parts.flatMap((part, i) => (i % 2 === 1 ? [Number.parseInt(part, 16)] : [...Buffer.from(part)]))
  return pathText(Uint8Array.from(bytes))
}
