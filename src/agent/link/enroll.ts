import { mkdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import type { Response } from 'undici'
import { z } from 'zod'
import { listenersAt } from '../../shared/platform/listener.ts'
import { AgentFailure } from '../failure.ts'
import { agentLayout } from '../state/layout.ts'
import { readNodeFile, writeNodeFile } from '../state/node-file.ts'
import { connectionProblem, type DaemonTrust, daemonConnector } from './daemon-connection.ts'
import { httpUrl, urlProblem } from './daemon-url.ts'

const ENROLL_PATH = '/api/agent/enroll'
const ENROLL_MS = 20_000

const Enrolled = z.object({ data: z.object({ nodeId: z.string(), nodeName: z.string(), apiKey: z.string() }) })
const Refused = z.object({ error: z.string(), code: z.string().optional() })

interface EnrollOptions extends DaemonTrust {
  readonly dataDir: string
  readonly url: string
  /** The one-time token of `panel nodes enroll-token`. */
  readonly deploymentToken: string
  /** Enrol again although the folder has credentials. */
  readonly force?: boolean
}

/** Exchanges a one-time token for the credentials of a node and writes them into the data folder. */
export async function enroll(options: EnrollOptions): Promise<{ nodeId: string; nodeName: string }> {
  const problem = urlProblem(options.url, options.allowInsecure ?? false)
  if (problem !== undefined) throw new AgentFailure('BAD_REQUEST', `The daemon's address ${problem}`)
  const { nodeFile, dataDir } = agentLayout(options.dataDir)
  const present = options.force === true ? undefined : await readNodeFile(nodeFile)
  if (present !== undefined) {
    const message = `This data folder is enrolled already, as node ${present.nodeName}; --force replaces its credentials`
    throw new AgentFailure('CONFLICT_STATE', message)
  }
  // Before the token is spent: an unwritable folder must not cost it.
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  const { nodeId, nodeName, apiKey } = await redeem(options)
  const { url, ca, allowInsecure } = options
  const listenerUid = options.listenerUid ?? (await listenerOf(url))
  await writeNodeFile(nodeFile, {
    ...{ url, nodeId, nodeName, nodeKey: apiKey },
    ...(ca === undefined ? {} : { ca }),
    ...(listenerUid === undefined ? {} : { listenerUid }),
    ...(allowInsecure === true ? { allowInsecure } : {}),
  })
  return { nodeId, nodeName }
}

/** Who serves a daemon on this machine, so that the agent trusts the same user later, whoever it runs as itself. */
async function listenerOf(url: string): Promise<number | undefined> {
  const { protocol, hostname, port } = httpUrl(url, '/')
  if (protocol !== 'http:') return undefined
  const target = { host: hostname, port: Number(port || 80), timeoutMs: ENROLL_MS, onlyHere: false }
  const uids = await listenersAt(target).catch(() => undefined) // it has just ended: root and the agent's own user remain
  return uids?.find((uid) => uid !== 0) ?? uids?.[0]
}

async function redeem(options: EnrollOptions): Promise<z.infer<typeof Enrolled>['data']> {
  let response: Response
  let body: unknown
  // Nobody else at an agent's start needs it.
  const { Agent, buildConnector, fetch } = await import('undici')
  const dispatcher = new Agent({ connect: daemonConnector(options, buildConnector) })
  try {
    response = await fetch(httpUrl(options.url, ENROLL_PATH), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ deploymentToken: options.deploymentToken, hostname: hostname() }),
      redirect: 'error',
      dispatcher,
      signal: AbortSignal.timeout(ENROLL_MS),
    })
    body = await response.json()
  } catch (error) {
    throw new AgentFailure('TIMEOUT', `The daemon cannot be reached at ${options.url}: ${connectionProblem(error)}`, {
      cause: error,
    })
  } finally {
    await dispatcher.destroy()
  }
  const enrolled = Enrolled.safeParse(body)
  if (response.ok && enrolled.success) return enrolled.data.data
  const refused = Refused.safeParse(body)
  const why = refused.success ? refused.data.error : `the answer was ${response.status}`
  throw new AgentFailure('BAD_REQUEST', `The daemon refused the enrolment: ${why}`)
}
