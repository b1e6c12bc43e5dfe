import { z } from 'zod'
import { SFTP_PATH, type SftpCounts, SftpGrant, SftpState } from '../../shared/protocol/sftp.ts'
import { AgentFailure } from '../failure.ts'
import type { ConnectTarget } from '../link/connect.ts'
import { answerOf, openRequest } from '../link/daemon-request.ts'
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

const Refused = z.object({ code: z.string(), error: z.string() })

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
  const answer = await send(target, `${SFTP_PATH}${path}`, Buffer.from(JSON.stringify(body))).catch(
    (error: unknown) => {
      throw unreached(errorText(error), error)
    },
  )
  if (answer.status === 200) return z.object({ data: z.unknown() }).parse(answer.body).data
  // Stopping, or something in between that has no daemon behind it: not refused.
  if (answer.status >= 502) throw unreached(`it has answered ${answer.status}`)
  const said = Refused.safeParse(answer.body).data
  throw new Refusal(said?.code ?? `HTTP_${answer.status}`, said?.error ?? `The panel has answered ${answer.status}`)
}

function unreached(why: string, cause?: unknown): AgentFailure {
  return new AgentFailure('CANCELLED', `The panel cannot be reached: ${why}`, { cause })
}

async function send(target: ConnectTarget, path: string, bytes: Buffer): Promise<{ status: number; body: unknown }> {
  const headers = { 'content-type': 'application/json', 'content-length': String(bytes.length) }
  const signal = AbortSignal.timeout(PATIENCE_MS)
  const request = openRequest(target, { method: 'POST', path, headers, signal })
  request.end(bytes)
  const answer = await answerOf(request)
  let text = ''
  for await (const piece of answer.setEncoding('utf8')) {
    text += String(piece)
    if (text.length > MOST_ANSWER) throw new Error('the answer is too long')
  }
  return { status: answer.statusCode ?? 0, body: JSON.parse(text) }
}
