import { join } from 'node:path'
import { usage } from '../failure.ts'
import { readPrivateYaml, readYaml, writePrivateYaml } from './files.ts'

/** A panel that the command line knows (`cli.yaml`). Never with its credential. */
export interface Context {
  readonly name: string
  readonly url: string
  readonly caFile?: string
  /** The unix socket by which this panel is reached, instead of its URL. */
  readonly socket?: string
  /** The user that served the URL at the sign-in; a panel on this machine. */
  readonly listenerUid?: number
  /** Plain http to another machine was insisted on. */
  readonly insecureHttp?: boolean
}

/** How to sign in to a context (`credentials.yaml`, 0600, or the desktop's keyring). */
export interface Credential {
  readonly token: string
  /** The id of the API key, to revoke it. */
  readonly keyId?: string
  readonly expiresAt?: string
  /** The key that `panel up` keeps in its data folder, where it stands whatever is forgotten here. */
  readonly madeBy?: 'up'
}

/** Where a credential is kept. */
export type Store = 'file' | 'keyring'

/** The contents of `cli.yaml`. */
export interface ContextFile {
  readonly current: string | undefined
  readonly contexts: readonly Context[]
}

/** Reads `cli.yaml`; an absent file is an empty one. */
export async function readContexts(configDir: string): Promise<ContextFile> {
  const file = record(await readYaml(join(configDir, 'cli.yaml')))
  const contexts = Object.entries(record(file['contexts'])).flatMap(([name, value]) => {
    const { url, caFile, socket, listenerUid, insecureHttp } = record(value)
    if (typeof url !== 'string') return []
    return [
      {
        name,
        url,
        ...(typeof caFile === 'string' ? { caFile } : {}),
        ...(typeof socket === 'string' ? { socket } : {}),
        ...(typeof listenerUid === 'number' ? { listenerUid } : {}),
        ...(insecureHttp === true ? { insecureHttp } : {}),
      },
    ]
  })
  const current = file['current']
  return { current: typeof current === 'string' ? current : undefined, contexts }
}

/** Refuses what is no name of a context. */
export function checkContextName(name: string): void {
  if (/^[A-Za-z0-9._@-]{1,64}$/.test(name)) return
  throw usage('a name is 1 to 64 letters, digits, dots, _, @ or -')
}

/** Adds or replaces a context; it becomes the current one when `use` is set or there was none. */
export async function saveContext(configDir: string, context: Context, use: boolean): Promise<void> {
  const file = await readContexts(configDir)
  const contexts = [...file.contexts.filter((known) => known.name !== context.name), context]
  await writeContexts(configDir, { current: use ? context.name : (file.current ?? context.name), contexts })
}

/** Replaces `cli.yaml`. */
export async function writeContexts(configDir: string, file: ContextFile): Promise<void> {
  const contexts = Object.fromEntries(file.contexts.map(({ name, ...rest }) => [name, rest]))
  const value = file.current === undefined ? { contexts } : { current: file.current, contexts }
  await writePrivateYaml(join(configDir, 'cli.yaml'), value)
}

/** The credential of a context, wherever it is kept. */
export async function readCredential(configDir: string, context: string): Promise<Credential | undefined> {
  const entry = record(record(await readPrivateYaml(credentialsPath(configDir)))[context])
  if (entry['store'] === 'keyring') {
    const { readKeyring } = await import('./keyring.ts')
    return toCredential({ ...entry, token: readKeyring(context) })
  }
  return toCredential(entry)
}

/** Where the credential of a context is kept. */
export async function storeOf(configDir: string, context: string): Promise<Store> {
  const entry = record(record(await readPrivateYaml(credentialsPath(configDir)))[context])
  return entry['store'] === 'keyring' ? 'keyring' : 'file'
}

/** Keeps the credential of a context. */
export async function saveCredential(
  configDir: string,
  context: string,
  wanted: { readonly credential: Credential; readonly store: Store },
): Promise<void> {
  const { token, ...rest } = wanted.credential
  if (wanted.store === 'keyring') {
    const { writeKeyring } = await import('./keyring.ts')
    writeKeyring(context, token)
  }
  const all = record(await readPrivateYaml(credentialsPath(configDir)))
  const entry = wanted.store === 'keyring' ? { store: 'keyring', ...rest } : { token, ...rest }
  await writePrivateYaml(credentialsPath(configDir), { ...all, [context]: entry })
}

/** Forgets the credential of a context; whether there was one. */
export async function removeCredential(configDir: string, context: string): Promise<boolean> {
  const all = record(await readPrivateYaml(credentialsPath(configDir)))
  const { [context]: removed, ...rest } = all
  if (removed === undefined) return false
  if (record(removed)['store'] === 'keyring') {
    const { removeKeyring } = await import('./keyring.ts')
    removeKeyring(context)
  }
  await writePrivateYaml(credentialsPath(configDir), rest)
  return true
}

function credentialsPath(configDir: string): string {
  return join(configDir, 'credentials.yaml')
}

function toCredential(entry: Record<string, unknown>): Credential | undefined {
  const { token, keyId, expiresAt, madeBy } = entry
  if (typeof token !== 'string') return undefined
  return {
    token,
    ...(typeof keyId === 'string' ? { keyId } : {}),
    ...(typeof expiresAt === 'string' ? { expiresAt } : {}),
    ...(madeBy === 'up' ? { madeBy } : {}),
  }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
}
