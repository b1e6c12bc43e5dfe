import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, mkdir, readdir, rm } from 'node:fs/promises'
import * as api from '../../../shared/api/files.ts'
import { pathBytes, pathText } from '../../../shared/kernel/path-text.ts'
import { oneLine } from '../../../shared/kernel/terminal-text.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import type { Run } from '../../kit/run.ts'
import { reportProblems } from './actions.ts'
import { downloadTo } from './copy.ts'
import { localName } from './local-name.ts'
import { sendFile } from './put.ts'
import { entriesOf, entryAt, placeOf, type RemotePlace, splitPlace, within } from './remote.ts'
import { patiently } from './resume.ts'

const SUMS_AT_ONCE = 100
const MOST_DEPTH = 1000

interface Side {
  readonly kind: 'file' | 'folder'
  readonly size: number
}

type Tree = Map<string, Side>

/** What is to be done, in its order. */
interface Step {
  readonly action: 'create' | 'update' | 'delete'
  readonly kind: Side['kind']
  readonly path: string
}

interface Ends {
  readonly remote: RemotePlace
  readonly local: Buffer
  readonly isUp: boolean
}

/** `panel files sync`: makes a folder on the one side like that on the other. */
export const sync: Action = async (run) => {
  const [from, to] = [run.args.required('from'), run.args.required('to')]
  const isUp = splitPlace(from) === undefined
  if (isUp === (splitPlace(to) === undefined)) throw usage('one side is server:path, and the other a folder here')
  const remote = await placeOf(run, isUp ? to : from)
  const ends: Ends = { remote, local: Buffer.from(isUp ? from : to), isUp }
  const problems: { path: string; reason: string }[] = []
  const here = await localTree(ends.local, isUp, isUp ? problems : [])
  const there = await remoteTree(run, remote, !isUp, isUp ? [] : problems)
  const steps = await stepsOf(run, ends, { here, there })
  const isDry = run.args.flag('dry-run')
  const deletions = steps.filter(({ action }) => action === 'delete')
  if (run.out.machine) await run.out.value({ steps, problems, dryRun: isDry })
  else
    for (const { action, path, kind } of steps) run.notice(`${action} ${oneLine(path)}${kind === 'folder' ? '/' : ''}`)
  if (!isDry && steps.length > 0) {
    if (deletions.length > 0) await run.prompt.confirm(`Delete ${deletions.length} on the side that is changed?`)
    await makeRoot(run, ends)
    await carryOut(run, ends, steps)
  }
  if (!run.out.machine)
    run.notice(
      `${steps.length} ${steps.length === 1 ? 'difference' : 'differences'}${isDry ? ', nothing was changed' : ''}`,
    )
  return reportProblems(run, problems, 1)
}

async function stepsOf(run: Run, ends: Ends, { here, there }: { here: Tree; there: Tree }): Promise<Step[]> {
  const [source, target] = ends.isUp ? [here, there] : [there, here]
  const steps: Step[] = []
  const same: string[] = []
  for (const [path, { kind, size }] of source) {
    const other = target.get(path)
    if (other === undefined) steps.push({ action: 'create', kind, path })
    else if (other.kind !== kind)
      throw new CliFailure('OPERATION_FAILED', `${path} is a file on one side and a folder on the other`)
    else if (kind === 'file' && other.size !== size) steps.push({ action: 'update', kind, path })
    else if (kind === 'file') same.push(path)
  }
  for (const path of await changedOf(run, ends, same)) steps.push({ action: 'update', kind: 'file', path })
  if (run.args.flag('delete')) {
    const gone = [...target].filter(([path]) => !source.has(path)).reverse() // what is in a folder before it
    for (const [path, { kind }] of gone) steps.push({ action: 'delete', kind, path })
  }
  return steps
}

/** Those of the same size whose bytes differ. */
async function changedOf(run: Run, { remote, local }: Ends, paths: readonly string[]): Promise<string[]> {
  const client = await run.client()
  const { serverId } = remote
  const changed: string[] = []
  for (let at = 0; at < paths.length; at += SUMS_AT_ONCE) {
    const some = paths.slice(at, at + SUMS_AT_ONCE)
    const body = { paths: some.map((path) => remotePath(remote, path)) }
    const input = { params: { serverId }, body }
    const { files } = await patiently(run, () => client.call(api.sumFiles, input, { signal: run.signal }))
    const sums = new Map(files.map(({ path, sha256 }) => [path, sha256]))
    for (const path of some) {
      if (sums.get(remotePath(remote, path)) !== (await hashOf(localPath(local, path)))) changed.push(path)
    }
  }
  return changed
}

/** The folder that is made like the other one. */
async function makeRoot(run: Run, { remote: { serverId, path }, local, isUp }: Ends): Promise<void> {
  if (!isUp) return void (await mkdir(local, { recursive: true }))
  if (path === '/') return
  const body = { path, isDirectory: true, parents: true }
  await (await run.client()).call(api.createFile, { params: { serverId }, body }, { signal: run.signal })
}

async function carryOut(run: Run, { remote, local, isUp }: Ends, steps: readonly Step[]): Promise<void> {
  const client = await run.client()
  const { serverId } = remote
  const remove: string[] = []
  for (const { action, kind, path } of steps) {
    if (run.signal.aborted) throw new CliFailure('INTERRUPTED', 'it was interrupted; run it again to go on')
    const [there, here] = [remotePath(remote, path), localPath(local, path)]
    if (action === 'delete') {
      if (isUp) remove.push(there)
      else await rm(here, { recursive: kind === 'folder' })
    } else if (kind === 'folder') {
      if (!isUp) await mkdir(here)
      else {
        const body = { path: there, isDirectory: true, parents: true }
        await client.call(api.createFile, { params: { serverId }, body }, { signal: run.signal })
      }
    } else if (isUp) await sendFile(run, { serverId, path: there, headers: {} }, here)
    else await downloadTo(run, { ...remote, path: there }, here)
  }
  for (let at = 0; at < remove.length; at += 1000) {
    const body = { paths: remove.slice(at, at + 1000) }
    await client.call(api.deleteFiles, { params: { serverId }, body }, { signal: run.signal })
  }
}

async function localTree(root: Buffer, mustBe: boolean, problems: { path: string; reason: string }[]): Promise<Tree> {
  const tree: Tree = new Map()
  const isThere = await lstat(root).then(
    (facts) => facts.isDirectory(),
    () => undefined,
  )
  if (isThere !== true) {
    if (mustBe || isThere === false) throw new CliFailure('FILE_UNREADABLE', `${root} is no folder`)
    return tree
  }
  const walk = async (folder: Buffer, above: string, depth: number): Promise<void> => {
    const names = await readdir(folder, { encoding: 'buffer' })
    for (const name of names.sort(Buffer.compare)) {
      const path = `${above}${pathText(name)}`
      const full = Buffer.concat([folder, Buffer.from('/'), name])
      const facts = await lstat(full)
      if (facts.isDirectory() && depth < MOST_DEPTH) {
        tree.set(path, { kind: 'folder', size: 0 })
        await walk(full, `${path}/`, depth + 1)
      } else if (facts.isFile()) tree.set(path, { kind: 'file', size: facts.size })
      else problems.push({ path, reason: 'is no file or folder, and was left out' })
    }
  }
  await walk(root, '', 0)
  return tree
}

async function remoteTree(
  run: Run,
  place: RemotePlace,
  mustBe: boolean,
  problems: { path: string; reason: string }[],
): Promise<Tree> {
  const tree: Tree = new Map()
  const entry = place.path === '/' ? undefined : await entryAt(run, place)
  if (place.path !== '/' && entry?.isDirectory !== true) {
    if (mustBe || entry !== undefined) throw new CliFailure('NOT_FOUND', `${place.server}:${place.path} is no folder`)
    return tree
  }
  const walk = async (folder: RemotePlace, above: string, depth: number): Promise<void> => {
    for await (const { name, kind, size } of entriesOf(run, folder)) {
      localName(name) // a slash in it would lead through links that are here
      const path = `${above}${name}`
      if (kind === 'folder' && depth < MOST_DEPTH) {
        tree.set(path, { kind, size: 0 })
        await walk(within(folder, name), `${path}/`, depth + 1)
      } else if (kind === 'file') tree.set(path, { kind, size })
      else problems.push({ path, reason: 'is no file or folder, and was left out' })
    }
  }
  await walk(place, '', 0)
  return tree
}

function remotePath(remote: RemotePlace, path: string): string {
  return `${remote.path === '/' ? '' : remote.path}/${path}`
}

/** The bytes of a path here; what a panel says is no name leads nowhere else. */
function localPath(root: Buffer, path: string): Buffer {
  const bytes = pathBytes(path)
  if (
    bytes === undefined ||
    path.includes('\0') ||
    path.split('/').some((name) => name === '' || name === '.' || name === '..')
  ) {
    throw new CliFailure('OPERATION_FAILED', 'the panel has answered what is no name of a file')
  }
  return Buffer.concat([root, Buffer.from('/'), bytes])
}

async function hashOf(path: Buffer): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path)) hash.update(piece)
  return hash.digest('hex')
}
