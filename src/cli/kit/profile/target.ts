import type { Environment } from '../environment.ts'
import { CliFailure } from '../failure.ts'
import { type Context, type ContextFile, readContexts, readCredential } from './contexts.ts'

/** How a panel is reached, and what is trusted on the way. */
export interface Reach {
  readonly url: string
  readonly caFile: string | undefined
  /** The unix socket to connect to instead of the URL's host and port. */
  readonly socket: string | undefined
  /** The user whose program may serve the URL on this machine, beside root and oneself. */
  readonly listenerUid: number | undefined
  /** Send credentials over plain http to another machine. */
  readonly insecureHttp: boolean
}

/** The panel that a command talks to, and as whom. */
export interface Target extends Reach {
  /** The context; `undefined` when the URL came by flag or environment. */
  readonly contextName: string | undefined
  readonly token: string | undefined
  /** Where the token came from. */
  readonly source: 'environment' | 'context' | 'none'
}

/** What the command line says about the target. */
export interface TargetFlags {
  readonly context: string | undefined
  readonly url: string | undefined
  readonly caFile: string | undefined
  readonly listenerUid: number | undefined
  readonly insecureHttp: boolean
}

/**
 * Decides the target: flag, then environment, then file. A URL by flag or environment is used with the context's token only
 * when it is that context's own: a token is never sent to a panel that it was not made for.
 */
export async function resolveTarget(env: Environment, flags: TargetFlags): Promise<Target> {
  const file = await readContexts(env.configDir)
  const context = chosenContext(file, env, flags)
  const url = flags.url ?? (flags.context === undefined ? env.url : undefined) ?? context?.url
  if (url === undefined) {
    throw new CliFailure('NOT_SIGNED_IN', 'no panel is chosen', {
      hint: 'panel up (a panel on this machine), or panel login <url>',
    })
  }
  checkUrl(url)
  const own = context !== undefined && sameUrl(context.url, url)
  const stored = own && env.token === undefined ? await readCredential(env.configDir, context.name) : undefined
  const token = env.token ?? stored?.token
  if (token !== undefined) checkToken(token, env.token === undefined ? 'the key of this context' : 'PANEL_TOKEN')
  return {
    ...reachBy(env, flags, own ? context : undefined, url),
    contextName: own ? context.name : undefined,
    token,
    source: env.token !== undefined ? 'environment' : token === undefined ? 'none' : 'context',
  }
}

/** How a URL is reached; what a context with this URL trusts is trusted. */
export async function reachOf(env: Environment, flags: TargetFlags, url: string): Promise<Reach> {
  return reachBy(env, flags, await contextOf(env, flags.context, url), url)
}

function reachBy(env: Environment, flags: TargetFlags, context: Context | undefined, url: string): Reach {
  return {
    url,
    caFile: flags.caFile ?? context?.caFile,
    socket: context?.socket,
    listenerUid: flags.listenerUid ?? env.listenerUid ?? context?.listenerUid,
    insecureHttp: flags.insecureHttp || env.insecureHttp || context?.insecureHttp === true,
  }
}

/** The context that is in force; `undefined` when there is none. */
export function chosenContext(
  file: ContextFile,
  env: Environment,
  flags: Pick<TargetFlags, 'context'>,
): Context | undefined {
  const wanted = flags.context ?? env.context
  const name = wanted ?? file.current
  const found = file.contexts.find((context) => context.name === name)
  if (wanted !== undefined && found === undefined) {
    const known = file.contexts.map((context) => context.name).join(', ')
    throw new CliFailure('NOT_FOUND', `there is no context '${wanted}'`, {
      hint: known === '' ? 'panel context create <name> --url <url>' : `known contexts: ${known}`,
    })
  }
  return found
}

/** The context that a sign-in to this URL is kept in: the one that is asked for or in force, else another with the same URL. */
export async function contextOf(
  env: Environment,
  wanted: string | undefined,
  url: string,
): Promise<Context | undefined> {
  const file = await readContexts(env.configDir)
  const name = wanted ?? env.context ?? file.current
  const same = file.contexts.filter((context) => sameUrl(context.url, url))
  return same.find((context) => context.name === name) ?? (wanted === undefined ? same[0] : undefined)
}

/** The command that signs in to a target. */
export function signInHint({
  contextName,
  url,
  socket,
}: Pick<Target, 'contextName' | 'url'> & { readonly socket?: string | undefined }): string {
  if (socket !== undefined) return 'panel up'
  return contextName === undefined ? `panel login ${url}` : `panel login --context ${contextName}`
}

/** Refuses what no header of a request can hold, such as the line end of a file that a variable was read from. */
function checkToken(token: string, source: string): void {
  if (/^[!-~]*$/.test(token)) return
  const hint = source === 'PANEL_TOKEN' ? 'unset PANEL_TOKEN, or give it a key that is valid' : 'panel login'
  throw new CliFailure('NOT_SIGNED_IN', `${source} has characters that no key has`, { hint })
}

/** Refuses what is no http(s) URL, and one that would bring a password into files and messages. */
export function checkUrl(url: string): void {
  // Blanks and line ends around an address are passed over by URL, and are in the middle of what is made with it.
  const parsed = URL.canParse(url) && !/\s/.test(url) ? new URL(url) : undefined
  if (parsed?.protocol === 'http:' || parsed?.protocol === 'https:') {
    if (parsed.username !== '' || parsed.password !== '')
      throw new CliFailure('USAGE', 'the URL of a panel has no user and no password in it', {
        hint: 'panel login <url>',
      })
    if (parsed.search !== '' || parsed.hash !== '')
      throw new CliFailure('USAGE', `'${url}' has more than the address of a panel`, {
        hint: `${parsed.origin}${parsed.pathname}`,
      })
    // Every path that is put behind it would be another one, which no panel has.
    if (parsed.pathname.includes('//') || url.includes('\\'))
      throw new CliFailure('USAGE', `'${url}' has doubled slashes or backslashes in its path`, {
        hint: `${parsed.origin}${parsed.pathname.replace(/\/{2,}/g, '/')}`,
      })
    return
  }
  const reason = parsed === undefined ? '' : ': it begins with http:// or https://'
  throw new CliFailure('USAGE', `'${url}' is not the URL of a panel${reason}`, {
    hint: 'for example http://127.0.0.1:7420',
  })
}

/** Whether both lead to the same panel, however they are typed. */
export function sameUrl(a: string, b: string): boolean {
  return URL.canParse(a) && URL.canParse(b) && new URL(a).href === new URL(b).href
}
