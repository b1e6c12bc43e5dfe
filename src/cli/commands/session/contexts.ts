import { resolve } from 'node:path'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import {
  type Context,
  checkContextName,
  readContexts,
  removeCredential,
  saveContext,
  writeContexts,
} from '../../kit/profile/contexts.ts'
import { checkUrl, chosenContext } from '../../kit/profile/target.ts'
import type { Run } from '../../kit/run.ts'

interface ContextRow {
  readonly name: string
  readonly url: string
  readonly current: boolean
  readonly caFile: string | null
  readonly socket: string | null
  readonly listenerUid: number | null
  readonly insecureHttp: boolean
}

const VIEW: View<ContextRow> = {
  id: (row) => row.name,
  name: (row) => row.name,
  columns: [
    column('CURRENT', (row) => (row.current ? '*' : ' ')),
    column('NAME', (row) => row.name),
    column('URL', (row) => row.url),
    wide('SOCKET', (row) => row.socket),
    wide('LISTENER UID', (row) => row.listenerUid),
  ],
}

export const listContexts: Action = async (run) => {
  const file = await readContexts(run.env.configDir)
  const chosen = file.contexts.find(
    ({ name }) => name === (run.args.text('context') ?? run.env.context ?? file.current),
  )
  const rows = file.contexts.map((context) => rowOf(context, context.name === chosen?.name))
  await run.out.list(rows, VIEW)
}

export const currentContext: Action = async (run) => {
  const file = await readContexts(run.env.configDir)
  const context = chosenContext(file, run.env, { context: run.args.text('context') })
  if (context === undefined)
    throw new CliFailure('NOT_FOUND', 'no context is chosen', { hint: 'panel context use <name>' })
  await run.out.item(rowOf(context, true), VIEW)
}

export const useContext: Action = async (run) => {
  const file = await readContexts(run.env.configDir)
  const name = run.args.required('name')
  const found = file.contexts.find((context) => context.name === name)
  if (found === undefined) throw unknown(name)
  await writeContexts(run.env.configDir, { ...file, current: name })
  await showContext(run, rowOf(found, true), `commands now talk to ${name} (${found.url})`)
}

export const createContext: Action = async (run) => {
  const name = run.args.required('name')
  const url = run.args.text('url')
  if (url === undefined) throw usage('--url <url> is required')
  checkContextName(name)
  checkUrl(url)
  const file = await readContexts(run.env.configDir)
  if (file.contexts.some((context) => context.name === name)) {
    throw new CliFailure('CONTEXT_EXISTS', `there is a context '${name}' already`, {
      hint: `panel context delete ${name}`,
    })
  }
  const given = run.args.text('ca-file')
  const caFile = given === undefined ? undefined : resolve(given)
  const listenerUid = run.args.integer('listener-uid')
  const context: Context = {
    ...{ name, url },
    ...(caFile === undefined ? {} : { caFile }),
    ...(listenerUid === undefined ? {} : { listenerUid }),
    ...(run.args.flag('insecure-http') ? { insecureHttp: true } : {}),
  }
  await saveContext(run.env.configDir, context, run.args.flag('use'))
  const current = run.args.flag('use') || file.current === undefined
  await showContext(
    run,
    rowOf(context, current),
    `context ${name} made${current ? ', and in use' : ''}; sign in with panel login --context ${name}`,
  )
}

export const deleteContext: Action = async (run) => {
  const { configDir } = run.env
  const name = run.args.required('name')
  const file = await readContexts(configDir)
  if (!file.contexts.some((context) => context.name === name)) {
    if (run.args.flag('ignore-not-found')) return
    throw unknown(name)
  }
  await removeCredential(configDir, name)
  const contexts = file.contexts.filter((context) => context.name !== name)
  await writeContexts(configDir, { current: file.current === name ? undefined : file.current, contexts })
  run.notice(`context ${name} deleted${file.current === name ? '; choose another with panel context use' : ''}`)
}

function rowOf({ name, url, caFile, socket, listenerUid, insecureHttp }: Context, current: boolean): ContextRow {
  return {
    ...{ name, url, current },
    caFile: caFile ?? null,
    socket: socket ?? null,
    listenerUid: listenerUid ?? null,
    insecureHttp: insecureHttp ?? false,
  }
}

async function showContext(run: Run, row: ContextRow, sentence: string): Promise<void> {
  if (run.out.machine) await run.out.item(row, VIEW)
  else run.notice(sentence)
}

function unknown(name: string): CliFailure {
  return new CliFailure('NOT_FOUND', `there is no context '${name}'`, { hint: 'panel context list' })
}
