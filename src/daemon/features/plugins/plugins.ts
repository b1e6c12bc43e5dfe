import { join } from 'node:path'
import { newIdSuffix } from '../../../shared/kernel/ids.ts'
import type { LogLevel } from '../../../shared/protocol/plugin-frames.ts'
import { openedConfig, storedConfig } from './config-values.ts'
import type { PluginDeps } from './deps.ts'
import { dispatch, runTask } from './dispatch.ts'
import { LoadProblem, messageOf } from './failures.ts'
import { type Definition, handlersOf, readDefinition } from './manifest.ts'
import { createPanelApi, type PanelApi } from './panel-api.ts'
import { type PluginFolder, pluginFolder } from './plugin-folder.ts'
import { PluginLife } from './plugin-life.ts'
import { PluginLog } from './plugin-log.ts'
import { PluginRun } from './plugin-run.ts'
import { killAll } from './processes.ts'
import { PluginRights } from './rights.ts'
import { allPlugins, ensureRow, findPlugin, type PluginRow, uidOfPlugin } from './rows.ts'
import { createPluginStorage } from './storage.ts'
import { registerPluginTasks, scheduleTasks } from './task-job.ts'
import { canSwitchUser } from './user-switch.ts'

interface Living {
  readonly life: PluginLife
  readonly log: PluginLog
  readonly leave: () => void
}

/** The plugins of this installation: those in its folder, and of them those that live. */
export class Plugins {
  readonly folder: PluginFolder
  readonly rights: PluginRights
  readonly deps: PluginDeps
  readonly #api: PanelApi
  readonly #living = new Map<string, Living>()
  /** Why plugins that are wanted could not even be begun. */
  readonly #problems = new Map<string, string>()
  readonly #turns = new Map<string, Promise<unknown>>()
  #closed = false

  constructor(deps: PluginDeps) {
    this.deps = deps
    this.folder = pluginFolder(deps.dataDir)
    this.rights = new PluginRights(deps)
    this.#api = createPanelApi({ storage: createPluginStorage(deps.db), rights: this.rights, inject: deps.inject })
    registerPluginTasks(deps.jobs, deps, (name) => this.#taskRunner(name))
    deps.settings.onChange((key) => {
      if (key === 'panel.timezone') this.#timezoneChanged()
    })
  }

  /** Starts every plugin that is wanted, in the background; one that cannot be started holds nothing up. */
  async begin(): Promise<void> {
    await this.folder.prepare()
    const wanted = (await allPlugins(this.deps.db.read)).filter(({ enabled }) => enabled === 1)
    for (const { name } of wanted) {
      void this.turn(name, () => this.start(name, { patiently: true })).catch((error: unknown) => {
        const reason = messageOf(error)
        this.deps.log.error({ plugin: name, reason }, 'cannot start plugin')
        this.#capture(name, `The plugin could not be started: ${reason}`)
      })
    }
  }

  /** Ends every plugin; none starts any more. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#living.keys()].map((name) => this.stop(name)))
  }

  /** Lets the changes of one plugin happen one after the other. */
  async turn<T>(name: string, work: () => Promise<T>): Promise<T> {
    const mine = (this.#turns.get(name) ?? Promise.resolve()).then(work)
    const tail = mine.catch(() => undefined) // its caller gets the failure; the next only waits for the end
    this.#turns.set(name, tail)
    try {
      return await mine
    } finally {
      if (this.#turns.get(name) === tail) this.#turns.delete(name)
    }
  }

  /** The plugin as it lives; `undefined`: it is not wanted, or it could not be read at all. */
  life(name: string): PluginLife | undefined {
    return this.#living.get(name)?.life
  }

  /** Why a plugin that is wanted does not live. */
  problem(name: string): string | null {
    return this.#problems.get(name) ?? null
  }

  /** A handler has failed by itself: its plugin goes on, and administrators can see why. */
  handlerFailed(name: string, handler: string, failure: unknown): void {
    const { log } = this.#living.get(name) ?? {}
    if (log === undefined) return
    const error = new Error(log.clean(`${handler}: ${messageOf(failure)}`))
    error.stack = failure instanceof Error ? log.clean(failure.stack ?? '') : ''
    log.write('error', error.message)
    this.deps.systemErrors.capture(error, { component: `plugin/${name}` })
  }

  /** What the folder says of the plugin now. Throws a LoadProblem. */
  definition(name: string): Promise<Definition> {
    return readDefinition(join(this.folder.path, name), name, this.deps.version)
  }

  /** Starts the plugin of an enabled row. Patiently: it is tried again; else it fails with a LoadProblem. */
  async start(name: string, { patiently }: { patiently: boolean }): Promise<void> {
    let living: Living
    try {
      living = await this.#prepare(name)
    } catch (error) {
      this.#problems.set(name, messageOf(error))
      throw error
    }
    const { life, log, leave } = living
    if (patiently) return life.beginPatiently()
    try {
      await life.begin()
    } catch (error) {
      leave()
      throw new LoadProblem(log.clean(messageOf(error)))
    }
  }

  async #prepare(name: string): Promise<Living> {
    const definition = await this.definition(name)
    const row = await this.#row(name)
    const config = openedConfig(definition, storedConfig(row), this.deps.vault)
    await this.rights.renew(name, row.keyId)
    const uid = await this.#uid(name)
    if (this.#closed) throw new LoadProblem('the daemon is stopping')
    const log = new PluginLog(this.deps.log.child({ component: 'plugin', plugin: name }), this.deps.clock)
    log.hide([...definition.schema.secrets].map((field) => String(config[field] ?? '')))
    const life = new PluginLife(definition, {
      clock: this.deps.clock,
      makeRun: () => this.#run(definition, { config, uid, log }),
      onFailure: (reason, givenUp) => this.#failed(name, log.clean(reason), givenUp),
    })
    const failed = (handler: string, failure: unknown): void => this.handlerFailed(name, handler, failure)
    const leave = dispatch({ deps: this.deps, life, log, rights: this.rights, failed })
    const living = { life, log, leave }
    this.#living.set(name, living)
    await this.#schedule(definition)
    return living
  }

  #taskRunner(name: string) {
    const living = this.#living.get(name)
    if (living === undefined) return undefined
    const { life, log } = living
    const failed = (handler: string, failure: unknown): void => this.handlerFailed(name, handler, failure)
    const run = (task: { name: string; handler: string }) => runTask({ life, log, failed }, task)
    return { definition: life.definition, run }
  }

  async #schedule(definition: Definition): Promise<void> {
    const { db, jobs, clock, settings } = this.deps
    if (definition.tasks.length === 0) return
    await db.write((tx) => scheduleTasks(tx, { queue: jobs.queue, clock, settings }, definition))
  }

  #timezoneChanged(): void {
    for (const { life } of this.#living.values()) {
      this.#schedule(life.definition).catch((error: unknown) =>
        this.deps.systemErrors.capture(error, { component: 'plugins' }),
      )
    }
  }

  /** Ends the plugin, if it lives. */
  async stop(name: string): Promise<void> {
    this.#problems.delete(name)
    const living = this.#living.get(name)
    if (living === undefined) return
    living.leave()
    await living.life.stop()
    this.#living.delete(name)
  }

  #run(definition: Definition, of: { config: Record<string, unknown>; uid: number | null; log: PluginLog }): PluginRun {
    const { name, main, memoryMb } = definition
    const { clock } = this.deps
    const mark = `PANEL_PLUGIN_RUN=${newIdSuffix(clock)}`
    const launch = { name, folder: join(this.folder.path, name), memoryMb, uid: of.uid, mark }
    // What a killed daemon may have left behind.
    if (of.uid !== null) killAll(launch)
    return new PluginRun({
      launch,
      main,
      config: of.config,
      handlers: handlersOf(definition),
      clock,
      log: (level: LogLevel, text, fields) => of.log.write(level, text, fields),
      request: (op, input) => this.#api.request(name, op, input),
      refusal: (error) => this.#refusal(name, error),
    })
  }

  #refusal(name: string, error: unknown) {
    const refusal = this.#api.refusal(error)
    if (refusal.code === 'INTERNAL_ERROR') this.deps.systemErrors.capture(error, { component: `plugin/${name}` })
    return refusal
  }

  async #row(name: string): Promise<PluginRow> {
    const row = await findPlugin(this.deps.db.read, name)
    if (row === undefined) throw new LoadProblem('it is not enabled')
    return row
  }

  /** The system user that it runs as; `null`: that of the daemon. */
  async #uid(name: string): Promise<number | null> {
    if (process.getuid?.() !== 0) return null
    const uid = await this.deps.db.write(async (tx) => {
      await ensureRow(tx, name)
      return uidOfPlugin(tx, name, this.deps.dataDir)
    })
    if (await canSwitchUser(uid)) return uid
    this.deps.log.warn({ plugin: name }, 'plugin runs as root, cannot switch users here')
    return null
  }

  #failed(name: string, reason: string, givenUp: boolean): void {
    const { log, db, bus, systemErrors } = this.deps
    log.warn({ plugin: name, reason, givenUp }, 'plugin failed')
    this.#capture(name, givenUp ? `The plugin is given up: ${reason}` : `The plugin has failed: ${reason}`)
    if (!givenUp) return
    db.write((tx) =>
      bus.append(tx, { type: 'plugin_updated', data: { name, action: 'failed', updatedBy: null } }),
    ).catch((error: unknown) => systemErrors.capture(error, { component: 'plugins' }))
  }

  #capture(name: string, message: string): void {
    const error = new Error(message)
    error.stack = '' // ours says nothing about the plugin
    this.deps.systemErrors.capture(error, { component: `plugin/${name}` })
  }
}
