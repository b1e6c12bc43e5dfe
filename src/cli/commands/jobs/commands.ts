import { type Argument, command, noun, type Option } from '../../kit/command.ts'
import { field, IDEMPOTENCY, LIST, reference, YES } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const JOB: Argument = { name: 'job', summary: 'its id: panel jobs list -o id' }
const SOME = 'job_01k5w0c9v7f3tqz8m2n4r6x8ya'
const TIMEOUT: Option = {
  flags: '--timeout <duration>',
  summary: 'how long to watch (default: to its end); exit 124 when it passes',
}

export const jobs = noun({
  name: 'jobs',
  aliases: ['job'],
  summary: 'Long work of the panel, its steps and progress',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List jobs that you may see, newest first',
      options: [
        { flags: '--open', summary: 'only those that have not ended' },
        { flags: '--ended', summary: 'only those that have' },
        {
          flags: '--status <status>',
          summary: 'only those',
          choices: ['queued', 'running', 'waiting', 'paused', 'succeeded', 'failed', 'cancelled'],
          field: 'status',
        },
        field('--kind <kind>', 'only of this kind', 'kind'),
        reference('--server <server>', 'only of this server', 'serverId', 'server'),
        reference('--node <node>', 'only of this node', 'nodeId', 'node'),
        reference('--user <user>', 'only on behalf of this user', 'userId', 'user'),
        field('--parent <job>', 'only those that this job has started', 'parentId'),
        { flags: '--background', summary: 'also what the panel does by itself again and again' },
        ...LIST,
      ],
      examples: ['panel jobs list --open', 'panel jobs list --status failed --server demo'],
      endpoints: ['jobs.list'],
      load: async () => (await actions()).listJobs,
    }),
    command({
      name: 'view',
      summary: 'Show a job with its steps',
      arguments: [JOB],
      examples: [`panel jobs view ${SOME}`],
      endpoints: ['jobs.get'],
      exits: [6],
      load: async () => (await actions()).viewJob,
    }),
    command({
      name: 'watch',
      summary: 'Follow a job to its end; exit 11 when it fails or is cancelled',
      arguments: [JOB],
      options: [TIMEOUT],
      examples: [`panel jobs watch ${SOME}`, `panel jobs watch ${SOME} --timeout 1h`],
      endpoints: [],
      exits: [6, 11, 124],
      load: async () => (await import('./watch.ts')).watchJob,
    }),
    command({
      name: 'pause',
      summary: 'Pause a job at the end of the step that runs',
      arguments: [JOB],
      options: [IDEMPOTENCY],
      examples: [`panel jobs pause ${SOME}`],
      endpoints: ['jobs.pause'],
      exits: [6, 7],
      load: async () => (await actions()).pauseJob,
    }),
    command({
      name: 'resume',
      summary: 'Go on with a paused job',
      arguments: [JOB],
      options: [IDEMPOTENCY],
      examples: [`panel jobs resume ${SOME}`],
      endpoints: ['jobs.resume'],
      exits: [6, 7],
      load: async () => (await actions()).resumeJob,
    }),
    command({
      name: 'cancel',
      summary: 'Cancel a job and what it has started; what its steps have done stays done',
      arguments: [JOB],
      options: [YES, IDEMPOTENCY],
      examples: [`panel jobs cancel ${SOME}`],
      endpoints: ['jobs.cancel'],
      exits: [6, 7],
      load: async () => (await actions()).cancelJob,
    }),
    command({
      name: 'retry',
      summary: 'Try the failed step of a job again and go on from there',
      arguments: [JOB],
      options: [{ flags: '--step <number>', summary: 'which step (default: the one that has failed)' }, IDEMPOTENCY],
      examples: [`panel jobs retry ${SOME}`, `panel jobs retry ${SOME} --step 3`],
      endpoints: ['jobs.retry_step'],
      exits: [6, 7],
      load: async () => (await actions()).retryJob,
    }),
  ],
})
