import * as api from '../../../shared/api/files.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import type { Run } from '../../kit/run.ts'
import { contentOf } from './get.ts'
import { entriesOf, entryAt, lastName, placeOf, placesOf, type RemotePlace, within } from './remote.ts'
import { ENTRIES, FOLDERS, HITS } from './views.ts'

/** `panel files ls`. */
export const list: Action = async (run) => {
  const rows: api.FileEntry[] = []
  for (const place of await placesOf(run, run.args.words('place'))) {
    const entry = place.path === '/' ? undefined : await present(run, place)
    if (entry !== undefined && (!entry.isDirectory || run.args.flag('directory'))) rows.push(entry)
    else for await (const one of entriesOf(run, place)) rows.push(one)
  }
  await run.out.list(rows, ENTRIES)
  return 0
}

/** `panel files cat`. */
export const cat: Action = async (run) => {
  for (const place of await placesOf(run, run.args.words('place'))) {
    for await (const piece of contentOf(run, place)) await run.terminal.writeBytes(piece)
  }
  return 0
}

/** `panel files mkdir`. */
export const mkdir: Action = async (run) => {
  const client = await run.client()
  const made: unknown[] = []
  for (const { serverId, path } of await placesOf(run, run.args.words('place'))) {
    const body = { path, isDirectory: true, parents: run.args.flag('parents') }
    made.push(await client.call(api.createFile, { params: { serverId }, body }, { signal: run.signal }))
  }
  if (run.out.machine) await run.out.value(made)
  return 0
}

/** `panel files mv`: the last word is where the others go. */
export const move: Action = async (run) => {
  const { sources, target } = await sourcesAndTarget(run)
  const client = await run.client()
  const moved: unknown[] = []
  for (const { from, to } of await pairs(run, sources, target)) {
    const body = { from: from.path, to: to.path, replace: run.args.flag('force') }
    await client.call(api.renameFile, { params: { serverId: from.serverId }, body }, { signal: run.signal })
    moved.push({ from: from.path, to: to.path })
  }
  if (run.out.machine) await run.out.value(moved)
  return 0
}

/** `panel files rm`. */
export const remove: Action = async (run) => {
  const force = run.args.flag('force')
  const places = await placesOf(run, run.args.words('place')).catch((error: unknown) => {
    if (force && error instanceof CliFailure && error.code === 'NOT_FOUND') return []
    throw error
  })
  const found: RemotePlace[] = []
  let folders = 0
  for (const place of places) {
    if (place.path === '/') throw usage('the folder of a server is not removed', 'name what is in it: server:*')
    const entry = await entryAt(run, place)
    if (entry === undefined && !force) throw missing(place)
    if (entry === undefined) continue
    if (entry.isDirectory && !run.args.flag('recursive')) {
      throw usage(`${place.server}:${place.path} is a folder`, '-r removes it with all that is in it')
    }
    if (entry.isDirectory) folders++
    found.push(place)
  }
  if (folders > 0)
    await run.prompt.confirm(
      `Remove ${found
        .map(({ server, path }) => `${server}:${path}`)
        .join(', ')
        .slice(0, 500)}?`,
    )
  const client = await run.client()
  const problems: { path: string; reason: string }[] = []
  let entries = 0
  for (const [serverId, paths] of byServer(found)) {
    for (let at = 0; at < paths.length; at += 1000) {
      const body = { paths: paths.slice(at, at + 1000) }
      const done = await client.call(api.deleteFiles, { params: { serverId }, body }, { signal: run.signal })
      entries += done.entries
      problems.push(...done.problems)
    }
  }
  if (run.out.machine) await run.out.value({ entries, problems })
  return reportProblems(run, problems, entries)
}

/** `panel files chmod`. */
export const chmod: Action = async (run) => {
  const client = await run.client()
  const recursive = run.args.flag('recursive')
  const folders = run.args.text('folders')
  if (folders !== undefined && !recursive) throw usage('--folders is for -R')
  const mode = run.args.required('mode')
  const problems: { path: string; reason: string }[] = []
  let entries = 0
  for (const { serverId, path } of await placesOf(run, run.args.words('place'))) {
    const body = { path, mode, recursive, ...(folders === undefined ? {} : { folderMode: folders }) }
    const done = await client.call(api.setFilePermissions, { params: { serverId }, body }, { signal: run.signal })
    entries += done.entries
    problems.push(...done.problems)
  }
  if (run.out.machine) await run.out.value({ entries, problems })
  return reportProblems(run, problems, entries)
}

/** `panel files ln`. */
export const link: Action = async (run) => {
  const { serverId, path } = await placeOf(run, run.args.required('place'))
  const body = { path, target: run.args.required('target') }
  const client = await run.client()
  await client.call(api.linkFile, { params: { serverId }, body }, { signal: run.signal })
  if (run.out.machine) await run.out.value(body)
  return 0
}

/** `panel files du`. */
export const usageOf: Action = async (run) => {
  const { serverId, path } = await placeOf(run, run.args.required('place'))
  const [depth, limit] = [run.args.integer('depth'), run.args.integer('limit', 1)]
  const query = { path, ...(depth === undefined ? {} : { depth }), ...(limit === undefined ? {} : { limit }) }
  const client = await run.client()
  const { folders, ...all } = await client.call(
    api.measureFiles,
    { params: { serverId }, query },
    { signal: run.signal },
  )
  if (run.out.machine) await run.out.value({ ...all, folders })
  else await run.out.list([...folders, all], FOLDERS)
  return 0
}

/** `panel files find`. */
export const find: Action = async (run) => {
  const { serverId, path } = await placeOf(run, run.args.required('place'))
  const text = (name: string, field = name) => {
    const given = run.args.text(name)
    return given === undefined ? {} : { [field]: given }
  }
  const regex = run.args.text('regex')
  if (regex !== undefined && run.args.text('text') !== undefined) throw usage('--text and --regex exclude each other')
  const seconds = run.args.integer('max-seconds', 1)
  const limit = run.args.integer('limit', 1)
  const query = {
    path,
    ...text('name'),
    ...text('text'),
    ...(regex === undefined ? {} : { text: regex, regex: 'true' as const }),
    ...(run.args.flag('ignore-case') ? { ignoreCase: 'true' as const } : {}),
    ...text('type', 'kind'),
    ...(limit === undefined ? {} : { limit }),
    ...(seconds === undefined ? {} : { maxSeconds: seconds }),
  }
  const client = await run.client()
  const found = await client.call<typeof api.searchFiles>(
    api.searchFiles,
    { params: { serverId }, query: query as never }, // the daemon says what is wrong with a word
    { signal: run.signal },
  )
  if (run.out.machine) await run.out.value(found)
  else await run.out.list(found.hits, HITS)
  if (found.cut !== null) run.notice(CUT[found.cut])
  if (found.unread > 0)
    run.notice(`${found.unread} files were not read: too large, no text, or closed (--unread names them)`)
  if (run.args.flag('unread')) for (const { path, reason } of found.problems) run.notice(`${path}: ${reason}`)
  if (found.hits.length === 0) throw new CliFailure('NO_MATCH', 'nothing was found')
  return 0
}

const CUT = {
  hits: 'there is more than the limit shows; see --limit',
  time: 'the time has passed before all was looked at; see --max-seconds',
  bytes: 'not all files were read: there are too many bytes',
} as const

/** `panel files sum`: lines as `sha256sum -c` takes them. */
export const sum: Action = async (run) => {
  const client = await run.client()
  const files: { path: string; size: number; sha256: string }[] = []
  const problems: { path: string; reason: string }[] = []
  for (const [serverId, paths] of byServer(await placesOf(run, run.args.words('place')))) {
    for (let at = 0; at < paths.length; at += 100) {
      const body = { paths: paths.slice(at, at + 100) }
      const done = await client.call(api.sumFiles, { params: { serverId }, body }, { signal: run.signal })
      files.push(...done.files)
      problems.push(...done.problems)
      if (done.isCut)
        problems.push({ path: paths[at] ?? '/', reason: 'has more files than one answer holds; name folders in it' })
    }
  }
  if (run.out.machine) await run.out.value(files)
  else for (const { path, sha256 } of files) await run.out.remote(sumLine(sha256, path.replace(/^\//, '')))
  return reportProblems(run, problems, files.length)
}

/** A name with a line break or a backslash begins with one, as sha256sum has it. */
function sumLine(sha256: string, path: string): string {
  const escaped = path.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return `${escaped === path ? '' : '\\'}${sha256}  ${escaped}\n`
}

/** What each source becomes: in the target where that is a folder, else the target itself. */
export async function pairs(
  run: Run,
  sources: readonly RemotePlace[],
  target: RemotePlace,
): Promise<{ readonly from: RemotePlace; readonly to: RemotePlace }[]> {
  const isFolder = target.path === '/' || (await entryAt(run, target))?.isDirectory === true
  if (sources.length > 1 && !isFolder) throw usage(`${target.server}:${target.path} is no folder`)
  for (const { server, serverId } of sources) {
    if (serverId !== target.serverId) {
      throw usage(`${server} and ${target.server} are two servers`, 'copy it here first: panel files cp')
    }
  }
  return sources.map((from) => ({ from, to: isFolder ? within(target, lastName(from.path)) : target }))
}

async function sourcesAndTarget(run: Run): Promise<{ sources: RemotePlace[]; target: RemotePlace }> {
  const words = run.args.words('place')
  const last = words.at(-1)
  if (words.length < 2 || last === undefined) throw usage('what and where to: two or more places are needed')
  return { sources: await placesOf(run, words.slice(0, -1)), target: await placeOf(run, last) }
}

/** What is there; exit 6 when nothing is. */
export async function present(run: Run, place: RemotePlace): Promise<api.FileEntry> {
  const entry = await entryAt(run, place)
  if (entry === undefined) throw missing(place)
  return entry
}

/** Says what was left out: exit 3 when something was done all the same, else 11. */
export function reportProblems(run: Run, problems: readonly { path: string; reason: string }[], done: number): number {
  for (const { path, reason } of problems.slice(0, 20)) run.notice(`${path}: ${reason}`)
  if (problems.length > 20) run.notice(`and ${problems.length - 20} more`)
  if (problems.length === 0) return 0
  return done > 0 ? 3 : 11
}

function missing({ server, path }: RemotePlace): PanelError {
  return new PanelError('FILE_NOT_FOUND', `There is no file ${server}:${path}`)
}

function byServer(places: readonly RemotePlace[]): Map<RemotePlace['serverId'], string[]> {
  const map = new Map<RemotePlace['serverId'], string[]>()
  for (const { serverId, path } of places) map.set(serverId, [...(map.get(serverId) ?? []), path])
  return map
}

/** What a copy has come to, for people. */
export function sizeText(entries: number, bytes: number): string {
  return `${entries} ${entries === 1 ? 'entry' : 'entries'}, ${byteSize(bytes)}`
}
