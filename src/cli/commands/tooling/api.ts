import { readEnvelope } from '../../../shared/client.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { parsePair, readText } from '../../kit/read-file.ts'
import { hasNextPage } from '../../kit/resource/next-page.ts'
import type { Run } from '../../kit/run.ts'
import { readAll } from '../../kit/terminal.ts'
import { openStream } from '../../net/stream.ts'

interface Call {
  readonly method: string
  readonly url: URL
  readonly headers: Record<string, string>
  readonly body: string | undefined
}

/** `panel api <path>`. */
export const callApi: Action = async (run) => {
  const call = await callOf(run)
  if (run.args.flag('stream')) return follow(run, call)
  if (run.args.flag('paginate')) return run.out.value(await allPages(run, call))
  const { text, status, headers } = await send(run, call)
  if (run.args.flag('silent')) {
    if (status >= 400) readEnvelope(status, text)
    return
  }
  if (run.args.flag('include')) await run.out.remote(`HTTP ${status}\n${shownHeaders(headers)}\n`)
  const json = parseJson(text)
  if (status >= 400 || run.args.flag('unwrap')) {
    const { data } = readEnvelope(status, text)
    return run.out.value(data)
  }
  if (json === undefined) await run.out.remote(text)
  else await run.out.value(json)
}

async function callOf(run: Run): Promise<Call> {
  const { args } = run
  const target = await run.target()
  const word = args.required('path')
  if (/^[a-z]+:\/\//i.test(word)) throw usage('give a path, not a URL: the panel is that of the context')
  const url = urlOf(word, target.url)
  const fields = await fieldsOf(run)
  const input = args.text('input')
  const text =
    input === undefined ? undefined : input === '-' ? await readAll(run.terminal.stdin) : await readText(input)
  const hasFields = Object.keys(fields).length > 0
  const method = args.text('method') ?? (hasFields || text !== undefined ? 'POST' : 'GET')
  if (method !== 'GET' && hasFields && text !== undefined)
    throw usage('--input is the whole body; leave out the fields')
  if (method === 'GET') for (const [name, value] of Object.entries(fields)) url.searchParams.set(name, String(value))
  const body = text ?? (hasFields && method !== 'GET' ? JSON.stringify(fields) : undefined)
  return { method, url, body, headers: headersOf(run, { method, body, token: target.token }) }
}

/** The path below the panel's own URL. `//host` and `/\\host` would be other hosts, and get the credential. */
function urlOf(word: string, panel: string): URL {
  const path = word.startsWith('/') ? word : `/api/${word}`
  const base = new URL(panel.endsWith('/') ? panel : `${panel}/`)
  const url = URL.canParse(`.${path}`, base.href) ? new URL(`.${path}`, base) : undefined
  const isBelow = url?.origin === base.origin && url.pathname.startsWith(base.pathname) && !/^\/[/\\]/.test(path)
  if (url === undefined || !isBelow) throw usage(`'${word}' is no path of ${base.origin}`)
  return url
}

function headersOf(
  run: Run,
  call: { readonly method: string; readonly body: string | undefined; readonly token: string | undefined },
): Record<string, string> {
  const own = run.args.list('header').map((text) => {
    const at = text.indexOf(':')
    if (at < 1) throw usage(`--header '${text}' is not name:value`)
    return [text.slice(0, at).trim().toLowerCase(), text.slice(at + 1).trim()] as const
  })
  return {
    accept: 'application/json',
    ...(call.token === undefined ? {} : { authorization: `Bearer ${call.token}` }),
    ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(call.method === 'POST' ? { 'idempotency-key': run.idempotencyKey() } : {}),
    ...Object.fromEntries(own),
  }
}

async function send(run: Run, { method, url, headers, body }: Call) {
  const { fetch } = await run.connection()
  const answer = await fetch(url.href, { method, headers, ...(body === undefined ? {} : { body }), signal: run.signal })
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

async function allPages(run: Run, call: Call): Promise<unknown[]> {
  if (call.method !== 'GET') throw usage('--paginate is for GET')
  const rows: unknown[] = []
  for (let page = 1; ; page++) {
    call.url.searchParams.set('page', String(page))
    if (!call.url.searchParams.has('limit')) call.url.searchParams.set('limit', '100')
    const { status, text } = await send(run, call)
    const { data, pagination } = readEnvelope(status, text)
    if (!Array.isArray(data)) throw usage('--paginate is for lists')
    rows.push(...data)
    if (pagination === undefined || !hasNextPage(pagination, data.length)) return rows
  }
}

async function follow(run: Run, call: Call): Promise<void> {
  const { streamFetch } = await run.connection()
  const { token } = await run.target()
  const options = {
    url: call.url.href,
    token,
    fetch: streamFetch,
    clock: run.clock,
    signal: run.signal,
    retriesBeforeOpen: 3,
  }
  for await (const item of openStream(options)) {
    if (item.kind === 'retrying') run.notice(`cut off; next try in ${(item.inMs / 1000).toFixed(1)} s`)
    if (item.kind === 'frame')
      await run.out.entry({ id: item.id, event: item.event, data: parseJson(item.data) ?? item.data })
  }
}

async function fieldsOf(run: Run): Promise<Record<string, unknown>> {
  const fields: Record<string, unknown> = {}
  for (const text of run.args.list('raw-field')) {
    const [name, value] = parsePair(text, '--raw-field')
    fields[name] = value
  }
  for (const text of run.args.list('field')) {
    const [name, value] = parsePair(text, '--field')
    fields[name] = value.startsWith('@') ? await readText(value.slice(1)) : typed(value)
  }
  return fields
}

function typed(text: string): unknown {
  if (text === 'true' || text === 'false') return text === 'true'
  if (text === 'null') return null
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // shown as it is
  }
}

function shownHeaders(headers: { get(name: string): string | null }): string {
  const names = ['content-type', 'x-request-id', 'retry-after', 'etag', 'date']
  return names.flatMap((name) => (headers.get(name) === null ? [] : [`${name}: ${headers.get(name)}\n`])).join('')
}
