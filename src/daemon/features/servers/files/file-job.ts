import { createHash } from 'node:crypto'
import { z } from 'zod'
import * as api from '../../../../shared/api/files.ts'
import type { Data, Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { ServerId } from '../../../../shared/kernel/ids.ts'
import { now } from '../../../../shared/kernel/time.ts'
import type { Principal } from '../../../access/operation.ts'
import { type Holder, serverPermissions } from '../../../access/permit.ts'
import { type Context, callerOf } from '../../../http/route.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { FileDeps } from './agent.ts'
import { recordNote } from './changes.ts'
import { doWork, isFinal, placesOf, targetOf } from './long-work.ts'
import { type Reached, reach } from './reach.ts'

const MOST_NOTED = 50
const DAY_MS = 24 * 3600_000

/** What jobs of files need beside files. */
export interface FileJobDeps extends FileDeps {
  readonly jobs: Pick<Jobs, 'queue'>
}

/**
 * Work on the files of a server that goes on without its caller. What it may reach, and whether it may reach the other server at all, is
 * looked at when it is started, and again when it runs.
 */
export const FILE_JOB = defineJob({
  kind: 'files.work',
  input: z.object({
    serverId: ServerId,
    work: api.FileWork,
  }),
  state: z.object({
    entries: z.number().nullable(),
    bytes: z.number().nullable(),
    problems: z.array(z.string()),
    problemCount: z.number().default(0),
  }),
  first: () => ({ entries: null, bytes: null, problems: [], problemCount: 0 }),
  notes: ({ problems, problemCount }) => {
    const more = problemCount - problems.length
    return [...problems.map((text) => `left out: ${text}`), ...(more > 0 ? [`and ${more} more were left out`] : [])]
  },
  title: ({ work }) => titleOf(work),
  pool: { name: 'files', size: 8 },
  lane: ({ serverId }) => serverId,
  ordered: false,
  background: false,
  plan: ({ work }) => [{ step: 'work', name: work.kind }],
  needs: ({ serverId }) => ({ server: serverId, permissions: ['file.write'] }),
})

/** Gives the engine the steps of work on files. */
export function registerFileJobs(jobs: Pick<Jobs, 'register'>, deps: FileDeps): void {
  jobs.register(FILE_JOB, {
    steps: {
      work: {
        timeoutMs: DAY_MS,
        run: async ({ job, signal, progress }) => {
          const { serverId, work } = job.input
          const key = createHash('sha256').update(job.id).digest('hex').slice(0, 32)
          try {
            const { nodeId, rules, target } = await placesNow(deps, { serverId, work }, holderOf(job.principal))
            const done = await doWork(
              deps,
              { serverId, work },
              {
                ...{ nodeId, rules, key, signal, part: 'body' as const },
                ...(target === undefined ? {} : { target }),
                onProgress: ({ entries, bytes }) => {
                  const unit = bytes > 0 ? 'bytes' : 'items'
                  progress({ done: bytes > 0 ? bytes : entries, total: null, unit, text: titleOf(work).slice(0, 200) })
                },
              },
            )
            return async (tx) => {
              await recordNote(tx, deps, job.principal, done)
              const problems = done.problems
                .slice(0, MOST_NOTED)
                .map(({ path, reason }) => `${path}: ${reason}`.slice(0, 500))
              return { state: { entries: done.entries, bytes: done.bytes, problems, problemCount: done.problemCount } }
            }
          } catch (error) {
            if (signal.aborted || !isFinal(error)) throw error
            // Cut off after its effect: what was to be deleted is gone, and what was to be made may be there.
            if (job.attempt > 1 && work.kind === 'delete' && error.code === 'FILE_NOT_FOUND') return undefined
            const again = job.attempt > 1 && error.code === 'CONFLICT'
            const hint = again ? ' (an attempt before this one was cut off: it may have made it)' : ''
            const failure = { kind: 'fail' as const, error: `${error.message}${hint}`, code: error.code }
            return async () => ({ after: failure })
          }
        },
      },
    },
  })
}

/** Starts it; whoever asks has to have the rights on the other server, too. */
export async function startFileJob(
  deps: FileJobDeps,
  { params: { serverId }, body: { work } }: Input<typeof api.startFileJob>,
  context: Pick<Context, 'principal' | 'caller'>,
): Promise<Data<typeof api.startFileJob>> {
  const caller = callerOf(context)
  const { nodeId } = await placesNow(deps, { serverId, work }, caller)
  const jobId = await deps.db.write((tx) =>
    deps.jobs.queue.add(tx, FILE_JOB, {
      input: { serverId, work },
      cause: 'files',
      onBehalfOf: caller,
      serverId,
      nodeId,
    }),
  )
  if (jobId === undefined) throw new Error('a job without a key was not added')
  return { jobId }
}

/** Where it works, and what whoever has started it reaches there now. */
async function placesNow(
  deps: FileDeps,
  { serverId, work }: { readonly serverId: ServerId; readonly work: api.FileWork },
  caller: Holder,
): Promise<Reached & { readonly target: Reached | undefined }> {
  const reached = await reach(deps, serverId, { caller, ...placesOf(work) })
  await permitTarget(deps, work, caller)
  return { ...reached, target: await targetOf(deps, work, caller) }
}

function holderOf(principal: Principal): Holder {
  if (principal.kind === 'job' && principal.holder !== undefined) return principal.holder
  throw new PanelError('PERMISSION_DENIED', 'Work on files is done for an account alone', { meta: { missing: [] } })
}

async function permitTarget({ db, clock }: FileDeps, work: api.FileWork, caller: Holder): Promise<void> {
  if (work.kind !== 'copy_to_server') return
  const at = { q: db.read, now: now(clock) }
  const held = await serverPermissions(at, caller, work.toServerId, ['file.write'])
  const read = await serverPermissions(at, caller, work.toServerId, ['server.read'])
  if (held.length > 0) return
  // Who may not see a server does not learn that there is one.
  if (read.length === 0) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${work.toServerId}`)
  throw new PanelError('PERMISSION_DENIED', 'You may not write files of the other server', {
    meta: { missing: ['file.write'] },
  })
}

function titleOf(work: api.FileWork): string {
  if (work.kind === 'copy') return `Copy ${work.from} to ${work.to}`
  if (work.kind === 'delete')
    return `Delete ${work.paths[0]}${work.paths.length > 1 ? ` and ${work.paths.length - 1} more` : ''}`
  if (work.kind === 'compress') return `Pack ${work.archiveName}`
  if (work.kind === 'decompress') return `Unpack ${work.archivePath}`
  return work.kind === 'pull' ? `Fetch ${new URL(work.url).host}` : `Copy ${work.from} to ${work.toServerId}`
}
