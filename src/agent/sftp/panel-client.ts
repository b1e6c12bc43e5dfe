import { type IncomingMessage, type RequestOptions, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import type { Socket } from 'node:net'
import { z } from 'zod'
import { NODE_ID_HEADER, NODE_KEY_HEADER } from '../../shared/protocol/frames.ts'
import { SFTP_PATH, type SftpCounts, SftpGrant, SftpState } from '../../shared/protocol/sftp.ts'
import { AgentFailure } from '../failure.ts'
import type { ConnectTarget } from '../link/connect.ts'
import { connectPlain } from '../link/daemon-connection.ts'
import { httpUrl } from '../link/daemon-url.ts'
import { errorText } from '../logger.ts'

const PATIENCE_MS = 15_000
const MOST_ANSWER = 4 * 1024 * 1024

/** What somebody shows to come in. */
export type Credential =
  | { readonly method: 'password'; readonly password: string }
  | { readonly method: 'key'; readonly publicKey: string; readonly isSigned: boolean }

const Opened = z.object({
  isKnown: z.boolean(),
  refusal: z.string().nullable(),
  session: z
    .object({ sessionId: z.string().max(64), userId: z.string(), serverId: z.string(), grant: SftpGrant })
    .nullable(),
})
export type Opened = z.infer<typeof Opened>

const Refused = z.object({ error: z.string().optional(), message: z.string().optional() })

/** The daemon has answered, and not what was asked for: too many attempts, a line that does not reach the game. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The questions of an SSH server to its daemon. Each rejects with CANCELLED when the daemon cannot be reached, or with a {@link Refusal}. */
export interface PanelClient {
  open(asked: {
    readonly username: string
    readonly credential: Credential
    readonly address: string
    readonly client: string | null
  }): Promise<Opened>
  check(sessionIds: readonly string[]): Promise<readonly SftpState[]>
  report(
    sessionId: string,
    report: {
      readonly counts: SftpCounts
      readonly folders: readonly string[]
      readonly allFolders: boolean
      readonly ended: string | null
    },
  ): Promise<void>
  command(sessionId: string, command: string): Promise<void>
}

/** The questions by HTTP, with the credentials of the node. */
export function createPanelClient(target: ConnectTarget): PanelClient {
  return {
    open: async (asked) => Opened.parse(await post(target, '/sessions', asked)),
    check: async (sessionIds) =>
      z.object({ sessions: z.array(SftpState) }).parse(await post(target, '/check', { sessionIds })).sessions,
    report: async (sessionId, report) => {
      await post(target, `/sessions/${encodeURIComponent(sessionId)}/report`, report)
    },
    command: async (sessionId, command) => {
      await post(target, `/sessions/${encodeURIComponent(sessionId)}/command`, { command })
    },
  }
}

async function post(target: ConnectTarget, path: string, body: unknown): Promise<unknown> {
  const bytes = Buffer.from(JSON.stringify(body))
  const answer = await send(target, `${SFTP_PATH}${path}`, bytes).catch((error: unknown) => {
    throw new AgentFailure('CANCELLED', `The panel cannot be reached: ${errorText(error)}`, { cause: error })
  })
  if (answer.status !== 200) {
    const said = Refused.safeParse(answer.body).data
    throw new Refusal(
      said?.error ?? `HTTP_${answer.status}`,
      said?.message ?? `The panel has answered ${answer.status}`,
    )
  }
  return z.object({ data: z.unknown() }).parse(answer.body).data
}

function send(target: ConnectTarget, path: string, bytes: Buffer): Promise<{ status: number; body: unknown }> {
  const url = httpUrl(target.url, path)
  const { createConnection, ca } = target
  const options: RequestOptions = {
    method: 'POST',
    headers: {
      [NODE_ID_HEADER]: target.nodeId,
      [NODE_KEY_HEADER]: target.nodeKey,
      'content-type': 'application/json',
      'content-length': bytes.length,
    },
    agent: false,
    timeout: PATIENCE_MS,
  }
  // As for transfers: `http` uses nothing of a Socket that a Duplex has not, and takes a connection that comes later.
  if (createConnection !== undefined) options.createConnection = () => createConnection() as Socket
  else if (url.protocol === 'http:') {
    options.createConnection = (_, done) => {
      connectPlain(url, target).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, undefined as never), // as `http` itself calls it
      )
      return undefined
    }
  }
  const isSecure = createConnection === undefined && url.protocol === 'https:'
  return new Promise((resolve, reject) => {
    const took = (answer: IncomingMessage): void => {
      read(answer).then((body) => resolve({ status: answer.statusCode ?? 0, body }), reject)
    }
    const request = isSecure
      ? requestSecure(url, { ...options, ...(ca === undefined ? {} : { ca }) }, took)
      : requestPlain(url, options, took)
    request.once('timeout', () => request.destroy(new Error('no answer came in time')))
    request.once('error', reject)
    request.end(bytes)
  })
}

async function read(answer: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const piece of answer.setEncoding('utf8')) {
    text += String(piece)
    if (text.length > MOST_ANSWER) throw new Error('the answer is too long')
  }
  return JSON.parse(text)
}
