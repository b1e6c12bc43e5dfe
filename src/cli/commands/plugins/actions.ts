import * as api from '../../../shared/api/plugins.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { type Cell, column, type View, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { parsePair, readObject } from '../../kit/read-file.ts'
import { call } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'

const COLUMNS = [
  column<api.Plugin>('NAME', (row) => row.name),
  column<api.Plugin>('VERSION', (row) => row.version),
  column<api.Plugin>('STATUS', (row) => ({ status: row.status })),
  column<api.Plugin>('PERMISSIONS', (row) => row.permissions.join(',')),
  column<api.Plugin>('DESCRIPTION', (row) => row.description),
  wide<api.Plugin>('GRANTED', (row) => row.granted.join(',')),
  wide<api.Plugin>('ENABLED', (row) => ({ time: row.enabledAt })),
  wide<api.Plugin>('ERROR', (row) => row.error),
]
const VIEW: View<api.Plugin> = { id: (row) => row.name, name: (row) => row.name, columns: COLUMNS }

const DETAIL: View<api.PluginDetail> = {
  ...VIEW,
  columns: [
    ...COLUMNS,
    column('AUTHOR', (row) => row.author),
    column('ENGINE', (row) => row.engine),
    column('MEMORY', (row) => ({ mib: row.memoryMb })),
    column('LOADED', (row) => ({ time: row.loadedAt })),
    column('API KEY', (row) => row.keyId),
    column('ROUTES', (row) =>
      row.routes.map(({ method, url, permission }) => `${method} ${url} (${permission})`).join(', '),
    ),
    column('EVENTS', (row) => row.events.join(', ')),
    column('TASKS', (row) => row.tasks.map(({ name, cron }) => `${name} (${cron})`).join(', ')),
    column('CONFIG', (row) => JSON.stringify(row.config)),
  ],
}

export const listPlugins = listAction(api.listPlugins, VIEW)

export const viewPlugin: Action = async (run) => {
  await run.out.item(await get(run), DETAIL)
}

export const enablePlugin: Action = async (run) => {
  const { name, permissions } = await get(run)
  const asked = permissions.length === 0 ? 'no permission' : permissions.join(', ')
  await run.prompt.confirm(`Enable ${name}, trusted code that asks for ${asked}?`)
  await call(run, api.enablePlugin, { params: { name }, body: { enabled: true } })
  await run.out.item(await get(run), VIEW)
}

export const disablePlugin: Action = async (run) => {
  const name = nameOf(run)
  await call(run, api.enablePlugin, { params: { name }, body: { enabled: false } })
  try {
    await run.out.item(await get(run), VIEW)
  } catch (error) {
    if (!(error instanceof PanelError) || error.code !== 'PLUGIN_NOT_FOUND') throw error
    // Nobody wants it any more, and its folder was removed before: that is all that there is to report.
    run.notice(`${name} is disabled; its folder is gone`)
  }
}

export const reloadPlugin: Action = async (run) => {
  await call(run, api.reloadPlugin, { params: { name: nameOf(run) } })
  await run.out.item(await get(run), VIEW)
}

type Config = Record<string, unknown>

export const configPlugin: Action = async (run) => {
  const name = nameOf(run)
  const { config: before } = await get(run)
  const config = await changed(run, before)
  if (config === undefined) return showConfig(run, name, before)
  await showConfig(run, name, await call(run, api.configurePlugin, { params: { name }, body: { config } }))
}

/** The configuration that the flags make of the present one; `undefined` without any. The mask keeps a secret as it is. */
async function changed(run: Run, before: Config): Promise<Config | undefined> {
  const { args, terminal } = run
  const [file, secret] = [args.text('file'), args.text('secret')]
  const [set, unset] = [args.list('set'), args.list('unset')]
  const secretSource = args.flag('secret-stdin') || args.text('secret-file') !== undefined
  if (secret === undefined && secretSource) throw usage('--secret says which field the secret is for')
  if (file === undefined && secret === undefined && set.length === 0 && unset.length === 0) return undefined
  const config: Config = file === undefined ? { ...before } : await readObject(file, terminal.stdin)
  for (const text of set) {
    const [field, value] = parsePair(text, '--set')
    config[field] = valueOfText(value)
  }
  for (const field of unset) delete config[field]
  if (secret !== undefined) config[secret] = await readSecret({ name: 'secret', question: `Value of ${secret}:` }, run)
  return config
}

/** What is JSON counts as that; anything else is a text. */
function valueOfText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text // most values are plain words
  }
}

async function showConfig(run: Run, name: string, config: Config): Promise<void> {
  const fields = Object.keys(config).sort()
  const columns = fields.map((field) => column<Config>(field.toUpperCase(), (row) => cellOf(row[field])))
  if (columns.length === 0 && !run.out.machine) return run.notice('nothing is configured')
  await run.out.item(config, { id: () => name, name: () => name, columns })
}

function cellOf(value: unknown): Cell {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? value
    : JSON.stringify(value)
}

function get(run: Run): Promise<api.PluginDetail> {
  return call(run, api.getPlugin, { params: { name: nameOf(run) } })
}

function nameOf(run: Run): string {
  return run.args.required('plugin')
}
