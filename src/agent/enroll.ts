import { mkdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { Agent, fetch } from 'undici'
import { z } from 'zod'
import { httpUrl, urlProblem } from './daemon-url.ts'
import { AgentFailure } from './failure.ts'
import { agentLayout } from './layout.ts'
import { errorText } from './logger.ts'
import { readNodeFile, writeNodeFile } from './node-file.ts'

const ENROLL_PATH = '/api/agent/enroll'
const ENROLL_MS = 20_000

const Enrolled = z.object({ data: z.object({ nodeId: z.string(), nodeName: z.string(), apiKey: z.string() }) })
const Refused = z.object({ error: z.string(), code: z.string().optional() })

interface EnrollOptions {
  readonly dataDir: string
  readonly url: string
  /** The one-time token of `panel nodes enroll-token`. */
  readonly deploymentToken: string
  readonly allowInsecure?: boolean
  /** Certificates to trust, as PEM. */
  readonly ca?: string
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
    throw new AgentFailure('CONFLICT_STATE', `This data folder is enrolled already, as node ${present.nodeName}`)
  }
  // Before the token is spent: an unwritable folder must not cost it.
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  const { nodeId, nodeName, apiKey } = await redeem(options)
  await writeNodeFile(nodeFile, { url: options.url, nodeId, nodeName, nodeKey: apiKey })
  return { nodeId, nodeName }
}

async function redeem(options: EnrollOptions): Promise<z.infer<typeof Enrolled>['data']> {
  let response: Awaited<ReturnType<typeof fetch>>
  let body: unknown
  try {
    response = await fetch(httpUrl(options.url, ENROLL_PATH), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ deploymentToken: options.deploymentToken, hostname: hostname() }),
      redirect: 'error',
      ...(options.ca === undefined ? {} : { dispatcher: new Agent({ connect: { ca: options.ca } }) }),
      signal: AbortSignal.timeout(ENROLL_MS),
    })
    body = await response.json()
  } catch (error) {
    throw new AgentFailure('TIMEOUT', `The daemon cannot be reached at ${options.url}: ${errorText(error)}`)
  }
  const enrolled = Enrolled.safeParse(body)
  if (response.ok && enrolled.success) return enrolled.data.data
  const refused = Refused.safeParse(body)
  const why = refused.success ? refused.data.error : `the answer was ${response.status}`
  throw new AgentFailure('BAD_REQUEST', `The daemon refused the enrolment: ${why}`)
}
