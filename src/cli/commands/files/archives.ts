import * as api from '../../../shared/api/files.ts'
import type { ServerId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import type { Run } from '../../kit/run.ts'
import { waitForJob } from '../jobs/watch.ts'
import { reportProblems, sizeText } from './actions.ts'
import { placeOf, placesOf, type RemotePlace } from './remote.ts'
import { ARCHIVED } from './views.ts'

const PAGE = 20_000

/** `panel files tar`: the first word is the archive. */
export const tar: Action = async (run) => {
  const archive = await placeOf(run, run.args.required('archive'))
  const sources = await placesOf(run, run.args.words('place'))
  onOneServer(archive, sources)
  const { serverId } = archive
  const body = {
    paths: sources.map(({ path }) => path),
    archiveName: archive.path,
    replace: run.args.flag('force'),
  }
  if (run.args.flag('detach')) return await detach(run, serverId, { ...body, kind: 'compress' })
  const client = await run.client()
  const done = await client.call(api.compressFiles, { params: { serverId }, body }, { signal: run.signal })
  if (run.out.machine) await run.out.value(done)
  else run.notice(`${done.archivePath}: ${sizeText(done.entries, done.bytes)} in ${byteSize(done.size)}`)
  return reportProblems(run, done.problems, done.entries)
}

/** `panel files untar`. */
export const untar: Action = async (run) => {
  const archive = await placeOf(run, run.args.required('archive'))
  const { serverId, path } = archive
  if (run.args.flag('list')) return await listOf(run, archive)
  const word = run.args.word('folder')
  const folder = word === undefined ? above(archive) : await placeOf(run, word)
  onOneServer(archive, [folder])
  const body = { archivePath: path, targetPath: folder.path, replace: !run.args.flag('keep') }
  if (run.args.flag('detach')) return await detach(run, serverId, { ...body, kind: 'decompress' })
  const client = await run.client()
  const done = await client.call(api.decompressFile, { params: { serverId }, body }, { signal: run.signal })
  if (run.out.machine) await run.out.value(done)
  else run.notice(`${folder.server}:${folder.path}: ${sizeText(done.entries, done.bytes)}`)
  return reportProblems(run, done.problems, done.entries)
}

/** `panel files pull`. */
export const pull: Action = async (run) => {
  const { serverId, path, server } = await placeOf(run, run.args.required('place'))
  const name = run.args.text('name')
  const named = name === undefined ? {} : { name }
  const body = { url: run.args.required('url'), path, ...named, replace: run.args.flag('force') }
  if (run.args.flag('detach')) return await detach(run, serverId, { ...body, kind: 'pull' })
  const client = await run.client()
  const done = await client.call(api.pullFile, { params: { serverId }, body }, { signal: run.signal })
  if (run.out.machine) await run.out.value(done)
  else run.notice(`${server}:${done.path}: ${byteSize(done.size)}, sha256 ${done.sha256}`)
  return 0
}

/** Copies from node to node, as a job that is watched. Its bytes never come here. */
export async function copyToServer(run: Run, from: RemotePlace, to: RemotePlace): Promise<void> {
  const replace = run.args.flag('force')
  const work: api.FileWork = {
    kind: 'copy_to_server',
    from: from.path,
    toServerId: to.serverId,
    to: to.path,
    replace,
  }
  const client = await run.client()
  const input = { params: { serverId: from.serverId }, body: { work } }
  const { jobId } = await client.call(api.startFileJob, input, { signal: run.signal })
  const job = await waitForJob(run, jobId, undefined)
  if (job.status === 'succeeded') return
  const hint = `panel jobs view ${jobId}`
  throw new CliFailure('OPERATION_FAILED', `${job.title}: ${job.error ?? job.status}`, { hint })
}

async function listOf(run: Run, { serverId, path }: RemotePlace): Promise<number> {
  const client = await run.client()
  const rows: api.ArchiveEntry[] = []
  for (;;) {
    const body = { archivePath: path, skip: rows.length, limit: PAGE }
    const page = await client.call(api.listArchive, { params: { serverId }, body }, { signal: run.signal })
    rows.push(...page)
    if (page.length < PAGE) break
  }
  await run.out.list(rows, ARCHIVED)
  return 0
}

async function detach(run: Run, serverId: ServerId, work: api.FileWork): Promise<number> {
  const client = await run.client()
  const started = await client.call(api.startFileJob, { params: { serverId }, body: { work } }, { signal: run.signal })
  if (run.out.machine) await run.out.value(started)
  else run.notice(`started; panel jobs watch ${started.jobId}`)
  return 0
}

function onOneServer(one: RemotePlace, others: readonly RemotePlace[]): void {
  for (const { server, serverId } of others) {
    if (serverId !== one.serverId) throw usage(`${server} and ${one.server} are two servers`)
  }
}

function above(place: RemotePlace): RemotePlace {
  return { ...place, path: place.path.slice(0, place.path.lastIndexOf('/')) || '/' }
}
