import { z } from 'zod'
import { nextTime } from '../../core/cron.ts'
import type { Tx } from '../../db/db.ts'
import { defineJob } from '../../jobs/job-type.ts'
import type { Jobs } from '../../jobs/jobs.ts'
import type { PluginDeps } from './deps.ts'
import type { Definition } from './manifest.ts'

/** How long a call of a task may take, with the time that it waits for a busy plugin. */
const TASK_TIMEOUT_MS = 24 * 3_600_000

/** A task of a plugin at the times of its pattern. Times that pass while it works, or while the plugin does not, are left out. */
export const PLUGIN_TASK = defineJob({
  kind: 'plugins.task',
  input: z.object({ plugin: z.string(), task: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: ({ plugin, task }) => `Task ${task} of the plugin ${plugin}`,
  pool: { name: 'plugins', size: 64 },
  lane: ({ plugin, task }) => `${plugin} ${task}`,
  ordered: false,
  background: true,
  plan: () => [{ step: 'call', name: 'call' }],
})

/** A plugin that lives, as far as its tasks need it. */
interface TaskRunner {
  readonly definition: Definition
  /** Calls the handler of a task; never fails. */
  run(task: { readonly name: string; readonly handler: string }): Promise<void>
}

/** Has the engine call tasks of plugins; `living` answers those that live now. */
export function registerPluginTasks(
  jobs: Jobs,
  { clock, settings }: Pick<PluginDeps, 'clock' | 'settings'>,
  living: (plugin: string) => TaskRunner | undefined,
): void {
  jobs.register(PLUGIN_TASK, {
    steps: {
      call: {
        attempts: Number.POSITIVE_INFINITY,
        timeoutMs: TASK_TIMEOUT_MS,
        run: async ({ job }) => {
          const { plugin, task: name } = job.input
          const runner = living(plugin)
          const task = runner?.definition.tasks.find((one) => one.name === name)
          if (runner === undefined || task === undefined) return undefined // it is added again when the plugin lives
          await runner.run(task)
          const next = nextTime({ cron: task.cron, timeZone: settings.get('panel.timezone') }, clock.nowMs())
          if (next === null) return undefined
          return async () => ({ after: { kind: 'again', atMs: Date.parse(next) } })
        },
      },
    },
  })
}

/** Brings the tasks of a plugin that lives to their next times by the present time zone. */
export async function scheduleTasks(
  tx: Tx,
  { queue, clock, settings }: Pick<PluginDeps, 'clock' | 'settings'> & Pick<Jobs, 'queue'>,
  { name: plugin, tasks }: Definition,
): Promise<void> {
  for (const { name: task, cron } of tasks) {
    const at = nextTime({ cron, timeZone: settings.get('panel.timezone') }, clock.nowMs())
    if (at === null) continue
    const key = `${PLUGIN_TASK.kind} ${plugin} ${task}`
    await queue.schedule(tx, PLUGIN_TASK, { input: { plugin, task }, cause: `plugin ${plugin}`, key, at })
  }
}
