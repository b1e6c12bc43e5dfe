import * as api from '../../../shared/api/migration.ts'
import { usage } from '../../kit/failure.ts'
import { readSecret } from '../../kit/prompt.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

/** A source as a plan file names it: without its keys. */
export type SourcePlace =
  | { readonly url: string; readonly insecure: boolean }
  | { readonly source: api.DirectorySource }

/** A source as a request names it. */
export type SourceAccess =
  | (SourcePlace & { readonly url: string; readonly key: string; readonly clientApiKey?: string })
  | { readonly source: api.DirectorySource }

/** The keys of a source, as far as they are given. */
export interface SourceKeys {
  readonly key?: string
  readonly clientApiKey?: string
}

/** The source that the flags name, with its keys. */
export async function readSource(run: Run): Promise<SourceAccess> {
  return withKeys(run, await readPlace(run))
}

/** The same source with its keys, which are asked for at a terminal. */
export async function withKeys(run: Run, place: SourcePlace): Promise<SourceAccess> {
  if ('source' in place) return place
  const { key, ...rest } = await readKeys(run)
  const known =
    key ?? (await run.prompt.secret('Application key of the source', '--key-stdin, --key-file or PANEL_MIGRATION_KEY'))
  return { ...place, key: known.trim(), ...rest }
}

/** Where the source is, by the flags. */
async function readPlace(run: Run): Promise<SourcePlace> {
  const { args } = run
  const [kind, url, node, path] = ['source', 'url', 'node', 'path'].map((name) => args.text(name))
  const isDirectory = kind === undefined ? node !== undefined || path !== undefined : kind === 'directory'
  if (!isDirectory) {
    if (node !== undefined || path !== undefined) throw usage('--node and --path are of --source directory')
    if (url === undefined) throw usage('--url is required: the address of the panel to move from')
    return { url, insecure: args.flag('insecure') }
  }
  if (url !== undefined) throw usage('--url is of a panel, and the source is a directory')
  if (node === undefined || path === undefined) throw usage('a directory needs --node and --path')
  return {
    source: { kind: 'directory', nodeId: (await resolve(run, 'node', node)).id as api.DirectorySource['nodeId'], path },
  }
}

/** The keys that are given by stdin, files or the environment; nothing is asked. */
export async function readKeys(run: Run): Promise<SourceKeys> {
  const { args, env } = run
  const fromStdin = (name: string): boolean => args.flag(`${name}-stdin`) || args.text(`${name}-file`) === '-'
  for (const name of ['key', 'client-key']) {
    if (args.flag(`${name}-stdin`) && args.text(`${name}-file`) !== undefined)
      throw usage(`--${name}-stdin and --${name}-file exclude each other`)
  }
  if (fromStdin('key') && fromStdin('client-key'))
    throw usage('only one of the two keys can come by stdin', '--client-key-file, or PANEL_MIGRATION_CLIENT_KEY')
  if ((fromStdin('key') || fromStdin('client-key')) && (args.text('map-file') === '-' || args.text('plan') === '-'))
    throw usage('only one thing can come by stdin', '--key-file, or PANEL_MIGRATION_KEY')
  const key = await given(run, 'key', env.migrationKey)
  const clientApiKey = await given(run, 'client-key', env.migrationClientKey)
  return { ...(key === undefined ? {} : { key }), ...(clientApiKey === undefined ? {} : { clientApiKey }) }
}

async function given(run: Run, name: string, fallback: string | undefined): Promise<string | undefined> {
  const { args } = run
  if (!args.flag(`${name}-stdin`) && args.text(`${name}-file`) === undefined) return fallback?.trim()
  return (await readSecret({ name, question: name }, run)).trim()
}

/** The kind of source that --source demands; `undefined`: any. */
export function wantedKind(run: Run): api.SourceKind | undefined {
  return api.SourceKind.options.find((kind) => kind === run.args.text('source'))
}

/** What a source answers when it is asked what it holds; asked once in a run. */
export class SourceLook {
  readonly #run: Run
  readonly #source: SourceAccess
  #asked: Promise<api.SourceTest> | undefined

  constructor(run: Run, source: SourceAccess) {
    this.#run = run
    this.#source = source
  }

  get(): Promise<api.SourceTest> {
    this.#asked ??= this.#ask()
    return this.#asked
  }

  async #ask(): Promise<api.SourceTest> {
    const client = await this.#run.client()
    // A start may follow in the same run, with the key of the run itself.
    const options = { idempotencyKey: this.#run.idempotencyKey('test') }
    return client.call(api.testMigration, { body: this.#source as never }, options) // checked by the daemon
  }
}
