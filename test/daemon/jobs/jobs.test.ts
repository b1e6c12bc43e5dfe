import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { NewJob } from '../../../src/daemon/jobs/queue.ts'
import { login } from '../../../src/shared/api/auth.ts'
import * as api from '../../../src/shared/api/jobs.ts'
import { createRole, updateRole } from '../../../src/shared/api/roles.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import type { JobId, JobStepId } from '../../../src/shared/kernel/ids.ts'
import { pauseBefore } from '../../faulty-driver.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { linesOf, QUICK, registerTally, TALLY, type TallyHooks, type TallyInput } from './tally-job.ts'

let panel: TestPanel
let folder: string
let files = 0
/** What steps of a file do beside writing. */
const hooks = new Map<string, TallyHooks>()
/** What the last transaction of a job's steps does. */
const finishing = new Map<string, NonNullable<TallyHooks['finish']>>()

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-jobs-'))
  panel = await startPanel()
  registerTally(panel.app.jobs, {
    before: async (input, step, signal) => hooks.get(input.file)?.before?.(input, step, signal),
    after: async (input, step, signal) => hooks.get(input.file)?.after?.(input, step, signal),
    prepare: (input, step) => hooks.get(input.file)?.prepare?.(input, step),
    finish: async (tx, jobId, step) => (await finishing.get(jobId)?.(tx, jobId, step)) ?? false,
  })
})
afterAll(async () => {
  await panel.close()
  await rm(folder, { recursive: true })
})

const newFile = () => join(folder, String(++files))

async function start(
  given: Partial<TallyInput> & { readonly file: string },
  more: Partial<NewJob<TallyInput>> = {},
): Promise<JobId> {
  const input = { name: 'a', steps: 3, lane: given.file, serverId: null, needs: null, ...given }
  const { jobs, core } = panel.app
  return (await core.db.write((tx) => jobs.queue.add(tx, TALLY, { input, cause: 'test', ...more }))) as JobId
}

const show = (jobId: JobId, client = panel.client) => client.call(api.getJob, { params: { jobId } })

/** Waits for events until the job is as it should be. */
async function until(jobId: JobId, holds: (job: api.Job) => boolean): Promise<api.Job> {
  const { bus } = panel.app.core
  for (;;) {
    const changed = new Promise<void>((resolve) => {
      const stop = bus.listen(({ type, data }) => {
        if (type !== 'job_updated' || (data['job'] as { id: string }).id !== jobId) return
        stop()
        resolve()
      })
    })
    const job = await show(jobId)
    if (holds(job)) return job
    await changed
  }
}
const ended = (jobId: JobId) => until(jobId, ({ endedAt }) => endedAt !== null)

/** A gate that a step waits at. */
function gate() {
  let open = (): void => undefined
  let reached = (): void => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const arrived = new Promise<void>((resolve) => {
    reached = resolve
  })
  const pass = (): Promise<void> => {
    reached()
    return opened
  }
  return { open: () => open(), arrived, pass }
}

describe('a job', () => {
  it('carries its steps out in order, and says how far it is', async () => {
    const file = newFile()
    const middle = gate()
    hooks.set(file, { after: async (_, step) => (step === 2 ? middle.pass() : undefined) })
    const id = await start({ file })
    await middle.arrived
    const half = await until(id, ({ progress }) => progress?.done === 1)
    expect(half).toMatchObject({
      status: 'running',
      kind: 'test.tally',
      title: 'Tally a',
      cause: 'test',
      steps: { done: 1, total: 3, current: 'line 2' },
      progress: { done: 1, total: 3, unit: 'items', text: 'line 2' },
    })
    middle.open()
    const done = await ended(id)
    expect(done).toMatchObject({ status: 'succeeded', steps: { done: 3 }, error: null, requested: null })
    expect(done.stepList.map(({ number, status, attempts }) => [number, status, attempts])).toEqual(
      [1, 2, 3].map((number) => [number, 'succeeded', 1]),
    )
    expect((await linesOf(file)).map((line) => line.split(' ')[1])).toEqual(['1', '2', '3'])
  })

  it('is paused at the end of a step, goes on when it is resumed, and each is in the audit log', async () => {
    const file = newFile()
    const first = gate()
    hooks.set(file, { before: async (_, step) => (step === 1 ? first.pass() : undefined) })
    const id = await start({ file })
    await first.arrived
    const params = { jobId: id }
    expect(await panel.client.call(api.pauseJob, { params })).toMatchObject({ status: 'running', requested: 'pause' })
    first.open()
    expect(await until(id, ({ status }) => status === 'paused')).toMatchObject({ steps: { done: 1 }, requested: null })
    expect(await panel.client.call(api.pauseJob, { params })).toMatchObject({ status: 'paused' })
    await panel.client.call(api.resumeJob, { params })
    expect(await ended(id)).toMatchObject({ status: 'succeeded' })
    const rows = await panel.app.core.db.read
      .selectFrom('auditLog')
      .select('action')
      .where('resourceId', '=', id)
      .orderBy('id')
      .execute()
    expect(rows.map(({ action }) => action)).toEqual(['job.pause', 'job.resume'])
    const refused = panel.client.call(api.cancelJob, { params })
    await expect(refused).rejects.toMatchObject({ code: 'JOB_ENDED' })
  })

  it('is cancelled in the middle of a step, which hears of it', async () => {
    const file = newFile()
    const second = gate()
    hooks.set(file, {
      after: async (_, step, signal) => {
        if (step !== 2) return
        void second.pass()
        await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
      },
    })
    const id = await start({ file })
    await second.arrived
    await panel.client.call(api.cancelJob, { params: { jobId: id } })
    const job = await ended(id)
    expect(job).toMatchObject({ status: 'cancelled', steps: { done: 1 } })
    expect(job.stepList.map(({ status }) => status)).toEqual(['succeeded', 'failed', 'pending'])
  })

  it('fails when a step has used up its attempts, and goes on from there when that one is tried again', async () => {
    const file = newFile()
    let broken = true
    hooks.set(file, {
      before: async (_, step) => {
        if (broken && step === 2) throw new Error('the disk is away')
      },
    })
    const id = await start({ file })
    const waiting = await until(id, ({ error }) => error !== null)
    expect(waiting).toMatchObject({ status: 'queued', error: 'the disk is away', nextAttemptAt: expect.any(String) })
    const failed = await ended(id)
    expect(failed).toMatchObject({ status: 'failed', error: 'the disk is away', steps: { done: 1, current: 'line 2' } })
    const [one, two] = failed.stepList
    expect(two).toMatchObject({ status: 'failed', attempts: 3, error: 'the disk is away' })
    const retry = (step: api.JobStep | undefined) =>
      panel.client.call(api.retryJobStep, { params: { jobId: id, stepId: step?.id ?? ('' as JobStepId) } })
    await expect(retry(one)).rejects.toMatchObject({ code: 'JOB_STEP_NOT_FAILED' })
    broken = false
    await retry(two)
    expect(await ended(id)).toMatchObject({ status: 'succeeded', error: null })
    expect((await linesOf(file)).map((line) => line.split(' ')[1])).toEqual(['1', '2', '3'])
  })

  it('of the panel itself is not for people, and a step that says so is not tried again', async () => {
    const own = await panel.client.call(api.listJobs, { query: { background: 'true', kind: 'system.upkeep' } })
    expect(own).toMatchObject([{ title: 'Upkeep', userId: null }])
    expect(await panel.client.call(api.listJobs, { query: { kind: 'system.upkeep' } })).toEqual([])
    const pause = panel.client.call(api.pauseJob, { params: { jobId: own[0]?.id as JobId } })
    await expect(pause).rejects.toMatchObject({ code: 'JOB_NOT_CONTROLLABLE' })
    const id = await start({ file: newFile(), name: 'once' })
    const [step] = (await ended(id)).stepList
    const retry = panel.client.call(api.retryJobStep, { params: { jobId: id, stepId: step?.id as JobStepId } })
    await expect(retry).rejects.toMatchObject({ code: 'JOB_STEP_NOT_RETRYABLE' })
  })

  it('of a version that nobody here can read fails with a sentence, and one of an unknown kind waits', async () => {
    const file = newFile()
    const first = gate()
    hooks.set(file, { before: async (_, step) => (step === 1 ? first.pass() : undefined) })
    const id = await start({ file })
    await first.arrived
    await panel.app.core.db.write((tx) =>
      tx.q
        .updateTable('jobStep')
        .set({ step: 'from-tomorrow' })
        .where('jobId', '=', id)
        .where('number', '=', 2)
        .execute(),
    )
    first.open()
    expect(await ended(id)).toMatchObject({ status: 'failed', error: expect.stringContaining('from-tomorrow') })
    const strange = await start({ file: newFile() }, { at: new Date(Date.now() + 3_600_000).toISOString() as never })
    await panel.app.core.db.write((tx) =>
      tx.q.updateTable('job').set({ kind: 'test.unknown', dueAt: tx.now }).where('id', '=', strange).execute(),
    )
    await ended(await start({ file: newFile() }))
    expect(await show(strange)).toMatchObject({ status: 'queued', kind: 'test.unknown' })
  })
})

describe('a job that somebody works against', () => {
  const retry = async (jobId: JobId) => {
    const step = (await show(jobId)).stepList.find(({ status }) => status !== 'succeeded')
    return panel.client.call(api.retryJobStep, { params: { jobId, stepId: step?.id as JobStepId } })
  }

  it('stays cancelled when it is paused while its step still runs', async () => {
    const file = newFile()
    const first = gate()
    hooks.set(file, { before: async (_, step) => (step === 1 ? first.pass() : undefined) })
    const id = await start({ file })
    await first.arrived
    const params = { jobId: id }
    expect(await panel.client.call(api.cancelJob, { params })).toMatchObject({ requested: 'cancel' })
    expect(await panel.client.call(api.pauseJob, { params })).toMatchObject({ requested: 'cancel' })
    first.open()
    expect(await until(id, ({ status }) => status !== 'running')).toMatchObject({ status: 'cancelled' })
  })

  it('takes what its last step has started with it when it is cancelled at that moment', async () => {
    const [file, child] = [newFile(), newFile()]
    const first = gate()
    hooks.set(file, { before: async (_, step) => (step === 1 ? first.pass() : undefined) })
    const id = await start({ file, steps: 2 })
    let started: string | undefined
    finishing.set(id, async (tx) => {
      const input = { file: child, name: 'child', steps: 1, lane: child, serverId: null, needs: null }
      started = await panel.app.jobs.queue.add(tx, TALLY, { input, cause: 'test', parentId: id })
      return true
    })
    await first.arrived
    await panel.client.call(api.cancelJob, { params: { jobId: id } })
    first.open()
    await ended(id)
    expect(await ended(started as JobId)).toMatchObject({ status: 'cancelled' })
    expect(await linesOf(child)).toEqual([])
  })

  it('of a lane keeps its turn against one that failed before it and is tried again, and both end', {
    tags: ['long'],
  }, async () => {
    const file = newFile()
    let broken = true
    const held = gate()
    hooks.set(file, {
      before: async ({ name }, step) => {
        if (broken && name === 'first') throw new Error('the disk is away')
        if (name === 'second' && step === 1) await held.pass()
      },
    })
    const first = await start({ file, name: 'first' })
    const second = await start({ file, name: 'second' })
    await ended(first)
    await held.arrived
    await panel.client.call(api.pauseJob, { params: { jobId: second } })
    held.open()
    await until(second, ({ status }) => status === 'paused')
    broken = false
    expect(await retry(first)).toMatchObject({ status: 'queued', nextAttemptAt: null })
    await panel.client.call(api.resumeJob, { params: { jobId: second } })
    expect(await ended(second)).toMatchObject({ status: 'succeeded' })
    expect(await ended(first)).toMatchObject({ status: 'succeeded' })
    expect((await linesOf(file)).map((line) => line.split(' ')[0])).toEqual([
      ...['second', 'second', 'second'],
      ...['first', 'first', 'first'],
    ])
  })

  it('that nobody here can read is not tried again, shows nothing of its values, and hides no other', async () => {
    const file = newFile()
    const first = gate()
    hooks.set(file, { before: async (_, step) => (step === 1 ? first.pass() : undefined) })
    const id = await start({ file })
    await first.arrived
    const damage = (set: { input: string } | { progress: string }) =>
      panel.app.core.db.write((tx) => tx.q.updateTable('job').set(set).where('id', '=', id).execute())
    await damage({ input: 'sesame' })
    first.open()
    await ended(id)
    await damage({ progress: '{' })
    expect(await show(id)).toMatchObject({ status: 'failed', progress: null, error: 'a stored JSON value is damaged' })
    await expect(retry(id)).rejects.toMatchObject({ code: 'JOB_STEP_NOT_RETRYABLE' })
    const list = await panel.client.call(api.listJobs, { query: { kind: 'test.tally' } })
    expect(list.map((one) => one.id)).toContain(id)
  })

  it('whose step cannot be prepared fails by its attempts, repeats nothing and holds up nobody', {
    tags: ['long'],
  }, async () => {
    const file = newFile()
    let runs = 0
    hooks.set(file, {
      prepare: ({ name }, step) => {
        if (name === 'first' && step === 2) throw new Error('nothing to prepare it with')
      },
      before: async ({ name }) => void (name === 'first' && runs++),
    })
    const first = await start({ file, name: 'first' })
    const second = await start({ file, name: 'second' })
    const job = await ended(first)
    expect(job).toMatchObject({ status: 'failed', steps: { done: 1 }, error: 'nothing to prepare it with' })
    expect(job.stepList.map(({ status, attempts }) => [status, attempts])).toEqual([
      ['succeeded', 1],
      ['failed', 3],
      ['pending', 0],
    ])
    expect(runs).toBe(1)
    expect(await ended(second)).toMatchObject({ status: 'succeeded' })
  })

  it('of a key is the only open one of it also when it is tried again by hand', { tags: ['long'] }, async () => {
    const [file, other] = [newFile(), newFile()]
    const key = `key of ${file}`
    let broken = true
    const held = gate()
    hooks.set(file, {
      before: async () => {
        if (broken) throw new Error('not yet')
        await held.pass()
      },
    })
    const id = await start({ file, steps: 1 }, { key })
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    const second = await start({ file: other, steps: 1 }, { key })
    await ended(second)
    broken = false
    await retry(id)
    await held.arrived
    expect(await start({ file: other, steps: 1 }, { key })).toBeUndefined()
    held.open()
    expect(await ended(id)).toMatchObject({ status: 'succeeded' })
    // The other way round: what failed stays so while its successor is under way.
    broken = true
    const third = await start({ file, steps: 1 }, { key })
    await ended(third)
    const blocked = gate()
    hooks.set(other, { before: () => blocked.pass() })
    const fourth = await start({ file: other, steps: 1 }, { key })
    await blocked.arrived
    await expect(retry(third)).rejects.toMatchObject({ code: 'JOB_STEP_NOT_RETRYABLE' })
    blocked.open()
    expect(await ended(fourth)).toMatchObject({ status: 'succeeded' })
  })

  it('finds the state that its effect was prepared with when it is tried again by hand', {
    tags: ['long'],
  }, async () => {
    const file = newFile()
    let broken = true
    hooks.set(file, {
      after: async () => {
        if (broken) throw new Error('the answer was lost')
      },
    })
    const id = await start({ file, steps: 1 })
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    broken = false
    await retry(id)
    expect(await ended(id)).toMatchObject({ status: 'succeeded' })
    expect(await linesOf(file)).toHaveLength(1)
  })
})

describe('lanes', () => {
  it('of another pool go on while one pool has more lanes than it may work on', async () => {
    const { jobs, core } = panel.app
    const full = gate()
    jobs.register(QUICK, { steps: { do: { run: async () => full.pass().then(() => undefined) } } })
    await core.db.write(async (tx) => {
      for (let i = 0; i < 400; i++) await jobs.queue.add(tx, QUICK, { input: { lane: `lane ${i}` }, cause: 'test' })
    })
    await full.arrived
    expect(await ended(await start({ file: newFile() }))).toMatchObject({ status: 'succeeded' })
    full.open()
  })

  it('go side by side, and the jobs of one in order, also while the first waits for another attempt', async () => {
    const [one, other] = [newFile(), newFile()]
    const held = gate()
    let attempts = 0
    hooks.set(one, {
      before: async ({ name }, step) => {
        if (name === 'first' && step === 1 && ++attempts === 1) throw new Error('once more')
        if (name === 'first' && step === 2) await held.pass()
      },
    })
    const first = await start({ file: one, name: 'first' })
    const second = await start({ file: one, name: 'second' })
    const aside = await start({ file: other, name: 'aside' })
    await held.arrived
    expect(await ended(aside)).toMatchObject({ status: 'succeeded' })
    expect(await show(second)).toMatchObject({ status: 'queued', startedAt: null, nextAttemptAt: null })
    held.open()
    await ended(first)
    await ended(second)
    expect((await linesOf(one)).map((line) => line.split(' ').slice(0, 2).join(' '))).toEqual(
      ['first 1', 'first 2', 'first 3', 'second 1', 'second 2', 'second 3'], // biome-ignore format: one below the other
    )
  })

  it('stay with a job that is paused, and are handed on when it is cancelled', async () => {
    const file = newFile()
    const held = gate()
    hooks.set(file, { before: async ({ name }, step) => (name === 'first' && step === 1 ? held.pass() : undefined) })
    const first = await start({ file, name: 'first' })
    const second = await start({ file, name: 'second' })
    await held.arrived
    await panel.client.call(api.pauseJob, { params: { jobId: first } })
    held.open()
    await until(first, ({ status }) => status === 'paused')
    expect(await show(second)).toMatchObject({ status: 'queued', startedAt: null })
    await panel.client.call(api.cancelJob, { params: { jobId: first } })
    expect(await ended(second)).toMatchObject({ status: 'succeeded' })
  })
})

describe('the people of jobs', () => {
  async function person(name: string, permissions: readonly string[]) {
    const { client } = panel
    const role = await client.call(createRole, { body: { name: `r-${name}`, permissions: [...permissions] } })
    const body = { username: name, email: `${name}@example.org`, password: 'Correct-horse-1', roleIds: [role.id] }
    const user = await client.call(createUser, { body })
    const { token } = await panel.as(undefined).call(login, { body: { email: body.email, password: body.password } })
    return { role, user, client: panel.as(token) }
  }

  it('see and change their own, and only an administrator those of others', async () => {
    const [ann, bob] = [await person('ann', ['location.read']), await person('bob', ['location.read'])]
    const file = newFile()
    const first = gate()
    hooks.set(file, { before: async (_, step) => (step === 1 ? first.pass() : undefined) })
    const onBehalfOf = { kind: 'session', userId: ann.user.id, credentialId: '' } as const
    const id = await start({ file }, { onBehalfOf })
    await first.arrived
    expect((await ann.client.call(api.listJobs, { query: { kind: 'test.tally' } })).map((job) => job.id)).toEqual([id])
    expect(await bob.client.call(api.listJobs, {})).toEqual([])
    await expect(show(id, bob.client)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
    await expect(bob.client.call(api.pauseJob, { params: { jobId: id } })).rejects.toMatchObject({
      code: 'JOB_NOT_FOUND',
    })
    await ann.client.call(api.pauseJob, { params: { jobId: id } })
    first.open()
    await until(id, ({ status }) => status === 'paused')
    await panel.client.call(api.resumeJob, { params: { jobId: id } })
    expect(await ended(id)).toMatchObject({ status: 'succeeded', userId: ann.user.id })
  })

  it('are asked for their rights again at each step', async () => {
    const carl = await person('carl', ['location.read'])
    const file = newFile()
    const first = gate()
    hooks.set(file, { before: async (_, step) => (step === 1 ? first.pass() : undefined) })
    const onBehalfOf = { kind: 'session', userId: carl.user.id, credentialId: '' } as const
    const id = await start({ file }, { onBehalfOf })
    await first.arrived
    await panel.client.call(updateRole, { params: { roleId: carl.role.id }, body: { permissions: [] } })
    first.open()
    const job = await ended(id)
    expect(job).toMatchObject({ status: 'failed', errorCode: 'PERMISSION_DENIED', steps: { done: 1 } })
    expect(job.error).toContain('location.read')
    expect(await linesOf(file)).toHaveLength(1)
  })
})

describe('what a job has started', () => {
  it('is waited for, and cancelled with it', async () => {
    const [file, child] = [newFile(), newFile()]
    const held = gate()
    hooks.set(child, { before: async (_, step) => (step === 1 ? held.pass() : undefined) })
    const parent = await start({ file, steps: 1 })
    await ended(parent)
    const open = await start(
      { file: newFile(), steps: 1 },
      { at: new Date(Date.now() + 3_600_000).toISOString() as never },
    )
    const started = await start({ file: child }, { parentId: open })
    await held.arrived
    await panel.client.call(api.cancelJob, { params: { jobId: open } })
    held.open()
    expect(await ended(started)).toMatchObject({ status: 'cancelled' })
    expect(await show(open)).toMatchObject({ status: 'cancelled' })
    const children = await panel.client.call(api.listJobs, { query: { parentId: open } })
    expect(children.map(({ id }) => id)).toEqual([started])
  })
})

describe('the engine', () => {
  it('begins with what becomes due while it looks, not when it looks again', { timeout: 15_000 }, async () => {
    const file = newFile()
    const { jobs } = panel.app
    const hand = gate()
    const held = jobs.hold({ pool: TALLY.pool.name, lane: file }, hand.pass)
    const id = await start({ file, steps: 1 })
    let isFree = false
    // The last statement of a look: by then it has passed over the lane that is held.
    const pause = pauseBefore(async ({ sql }) => {
      if (isFree || !/^select "due_at" from "job" where "due_at" >/.test(sql)) return
      isFree = true
      hand.open()
      await held
    })
    try {
      jobs.queue.wake()
      expect(await ended(id)).toMatchObject({ status: 'succeeded' })
      expect(isFree).toBe(true)
    } finally {
      pause.remove()
    }
  })
})
