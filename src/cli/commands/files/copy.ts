import { randomBytes } from 'node:crypto'
import { link, lstat, mkdir, open, opendir, rename, rm, stat } from 'node:fs/promises'
import * as api from '../../../shared/api/files.ts'
import { pathText } from '../../../shared/kernel/path-text.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { writing } from '../../kit/resource/download.ts'
import type { Run } from '../../kit/run.ts'
import { pairs, present, reportProblems, sizeText } from './actions.ts'
import { copyToServer } from './archives.ts'
import { contentOf } from './get.ts'
import { localName } from './local-name.ts'
import { sendFile, sendStdin } from './put.ts'
import { entriesOf, entryAt, lastName, placeOf, placesOf, type RemotePlace, splitPlace, within } from './remote.ts'
import { patiently } from './resume.ts'

const PROGRESS_MS = 500
const MOST_DEPTH = 1000

interface Report {
  entries: number
  bytes: number
  readonly problems: { path: string; reason: string }[]
}

/** `panel files cp`: within a server, or between it and this machine. */
export const copy: Action = async (run) => {
  const words = run.args.words('place')
  const last = words.at(-1)
  if (words.length < 2 || last === undefined) throw usage('what and where to: two or more paths are needed')
  const sources = words.slice(0, -1)
  const remote = sources.filter((word) => splitPlace(word) !== undefined)
  const isDown = splitPlace(last) === undefined
  if (remote.length > 0 && remote.length < sources.length) throw usage('some sources are local and some are not')
  if (isDown && remote.length === 0) throw usage('none of these is on a server', 'a path on a server is server:path')
  const report: Report = { entries: 0, bytes: 0, problems: [] }
  if (isDown) await download(run, { sources: await placesOf(run, sources), target: last, report })
  else if (remote.length === 0) await upload(run, { sources, target: await placeOf(run, last), report })
  else await onServer(run, { sources: await placesOf(run, sources), target: await placeOf(run, last), report })
  if (run.out.machine) await run.out.value(report)
  else if (report.entries > 1) run.notice(sizeText(report.entries, report.bytes))
  return reportProblems(run, report.problems, report.entries)
}

async function onServer(
  run: Run,
  { sources, target, report }: { sources: readonly RemotePlace[]; target: RemotePlace; report: Report },
): Promise<void> {
  const client = await run.client()
  if (sources.some(({ serverId }) => serverId !== target.serverId)) {
    // From node to node: into a folder, under its own name.
    for (const from of sources) {
      if ((await present(run, from)).isDirectory) needRecursive(run, `${from.server}:${from.path}`)
      await copyToServer(run, from, target)
      report.entries++
    }
    return
  }
  for (const { from, to } of await pairs(run, sources, target)) {
    if ((await present(run, from)).isDirectory) needRecursive(run, `${from.server}:${from.path}`)
    const body = { from: from.path, to: to.path, replace: run.args.flag('force') }
    const done = await client.call(api.copyFile, { params: { serverId: from.serverId }, body }, { signal: run.signal })
    report.entries += done.entries
    report.bytes += done.bytes
    report.problems.push(...done.problems)
  }
}

async function upload(
  run: Run,
  { sources, target, report }: { sources: readonly string[]; target: RemotePlace; report: Report },
): Promise<void> {
  const isFolder = target.path === '/' || (await entryAt(run, target))?.isDirectory === true
  if (sources.length > 1 && !isFolder) throw usage(`${target.server}:${target.path} is no folder`)
  for (const source of sources) {
    const name = lastName(source)
    if (source === '-') {
      if (isFolder) throw usage('stdin needs the name of a file on the server')
      report.bytes += (await sendStdin(run, { ...target, headers: conditions(run) })).size
      report.entries++
      continue
    }
    const there = await stat(source).catch((cause: unknown) => {
      throw new CliFailure('FILE_UNREADABLE', `${source} cannot be read`, { cause })
    })
    const to = isFolder ? within(target, name === '' || name === '..' ? 'files' : name) : target
    if (there.isDirectory()) {
      needRecursive(run, source)
      await uploadFolder(run, { source: Buffer.from(source), to, report, depth: 0 })
    } else await uploadFile(run, { source, to, report })
  }
}

interface UploadStep {
  readonly source: Buffer
  readonly to: RemotePlace
  readonly report: Report
  readonly depth: number
}

async function uploadFolder(run: Run, { source, to, report, depth }: UploadStep): Promise<void> {
  const client = await run.client()
  const { serverId, path } = to
  const body = { path, isDirectory: true, parents: true }
  await patiently(run, () => client.call(api.createFile, { params: { serverId }, body }, { signal: run.signal }))
  report.entries++
  for await (const entry of await opendir(source, { encoding: 'buffer' as BufferEncoding })) {
    const name: unknown = entry.name // the types of Node know of texts alone
    if (!Buffer.isBuffer(name)) throw new TypeError('a listing without bytes')
    if (run.signal.aborted) throw new CliFailure('INTERRUPTED', 'the copy was interrupted')
    const inner = Buffer.concat([source, Buffer.from('/'), name])
    const step = { source: inner, to: within(to, pathText(name)), report, depth: depth + 1 }
    if (entry.isDirectory() && depth < MOST_DEPTH) await uploadFolder(run, step)
    else if (entry.isFile()) await uploadFile(run, step)
    else report.problems.push({ path: pathText(inner), reason: 'is no file or folder, and was left out' })
  }
}

async function uploadFile(
  run: Run,
  { source, to, report }: { source: string | Buffer; to: RemotePlace; report: Report },
): Promise<void> {
  const { size } = await sendFile(run, { ...to, headers: conditions(run) }, source)
  report.entries++
  report.bytes += size
}

/** Without --force nothing that is there is replaced. */
function conditions(run: Run): Record<string, string> {
  return run.args.flag('force') ? {} : { 'if-none-match': '*' }
}

async function download(
  run: Run,
  { sources, target, report }: { sources: readonly RemotePlace[]; target: string; report: Report },
): Promise<void> {
  if (target === '-') {
    for (const place of sources) {
      for await (const piece of contentOf(run, place)) {
        await run.terminal.writeBytes(piece)
        report.bytes += piece.length
      }
    }
    return
  }
  const isFolder = await stat(target).then(
    (facts) => facts.isDirectory(),
    () => false,
  )
  if (sources.length > 1 && !isFolder) throw usage(`${target} is no folder`)
  for (const place of sources) {
    const name = localName(lastName(place.path) || place.server)
    const to = isFolder ? Buffer.concat([Buffer.from(`${target}/`), name]) : Buffer.from(target)
    const entry = place.path === '/' ? undefined : await present(run, place)
    if (entry === undefined || entry.isDirectory) {
      needRecursive(run, `${place.server}:${place.path}`)
      await downloadFolder(run, { from: place, to, report })
    } else if (entry.kind === 'file') await downloadFile(run, { from: place, to, report })
    else throw usage(`${place.server}:${place.path} is no file or folder`)
  }
}

interface DownloadStep {
  readonly from: RemotePlace
  readonly to: Buffer
  readonly report: Report
}

async function downloadFolder(run: Run, { from, to, report }: DownloadStep): Promise<void> {
  await local(to, () =>
    mkdir(to).catch(async (error: unknown) => {
      // A link to a folder is not followed: a listing must not choose where files go.
      if (!(await lstat(to)).isDirectory()) throw error
    }),
  )
  report.entries++
  for await (const { name, kind, isDirectory } of entriesOf(run, from)) {
    if (run.signal.aborted) throw new CliFailure('INTERRUPTED', 'the copy was interrupted')
    const step = { from: within(from, name), to: Buffer.concat([to, Buffer.from('/'), localName(name)]), report }
    if (isDirectory) await downloadFolder(run, step)
    else if (kind === 'file') await downloadFile(run, step)
    else report.problems.push({ path: step.from.path, reason: 'is no file or folder, and was left out' })
  }
}

/** A file appears whole or not at all, and replaces one only with --force. */
async function downloadFile(run: Run, { from, to, report }: DownloadStep): Promise<void> {
  report.bytes += await downloadTo(run, from, to, run.args.flag('force'))
  report.entries++
}

/** The same to one place; answers its size. */
export async function downloadTo(run: Run, from: RemotePlace, to: Buffer, force = true): Promise<number> {
  const part = Buffer.concat([
    to.subarray(0, to.lastIndexOf('/') + 1),
    Buffer.from(`.panel-${randomBytes(8).toString('hex')}.part`),
  ])
  const there = await lstat(to).catch(() => undefined)
  if (there !== undefined && (!force || there.isDirectory())) {
    throw new CliFailure('FILE_UNREADABLE', `${pathText(to)} is there already`, { hint: '--force replaces a file' })
  }
  const file = await local(to, () => open(part, 'wx', 0o600))
  let size = 0
  try {
    const shown = progressOf(run, from)
    for await (const piece of contentOf(run, { ...from, seen: shown.seen })) {
      await local(to, () => file.writeFile(piece))
      size += piece.length
      shown.passed(piece.length)
    }
    shown.end()
    await local(to, () => file.sync())
    await local(to, () => (force ? rename(part, to) : link(part, to)))
  } finally {
    await file.close()
    await rm(part, { force: true })
  }
  return size
}

function progressOf(run: Run, { path }: RemotePlace) {
  const shows = run.terminal.stderr.isTTY === true && !run.args.flag('quiet')
  let size: number | undefined
  let passed = 0
  let shownAt = run.clock.monotonicMs()
  return {
    seen: (about: { readonly size: number | undefined }): void => {
      size = about.size
    },
    passed: (bytes: number): void => {
      passed += bytes
      if (!shows || run.clock.monotonicMs() - shownAt < PROGRESS_MS) return
      shownAt = run.clock.monotonicMs()
      const share =
        size === undefined || size === 0 ? '' : ` of ${byteSize(size)}, ${Math.floor((passed / size) * 100)} %`
      run.terminal.progress(`${lastName(path)}: ${byteSize(passed)}${share} `)
    },
    end: (): void => {
      if (shows) run.terminal.progress('')
    },
  }
}

/** Does something with a file of this machine; a failure names it, with what to do. */
function local<T>(path: Buffer, work: () => Promise<T>): Promise<T> {
  return writing(pathText(path), work)
}

function needRecursive(run: Run, what: string): void {
  if (!run.args.flag('recursive')) throw usage(`${what} is a folder`, '-r copies it with all that is in it')
}
