import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { SftpSessionId } from '../kernel/ids.ts'
import { SFTP_LIMITS, SftpCounts, SftpGrant, SftpState } from '../protocol/sftp.ts'

const OF_AGENTS = 'agents of other versions write it'

/** Whoever comes in at the SSH server of a node is asked for here. */
export const openSftpSession = defineEndpoint({
  id: 'sftp.open',
  tag: 'Internal',
  summary: 'Ask who comes in at the SSH server of a node',
  method: 'POST',
  path: '/api/agent/sftp/sessions',
  access: 'agent',
  body: z.object({
    /** As it was given: `name.<server>`. */
    username: z.string().max(512),
    credential: z.discriminatedUnion('method', [
      z.object({ method: z.literal('password'), password: z.string().max(1024) }),
      /** The agent has verified the signature of the connection, unless it only asks whether the key would do. */
      z.object({ method: z.literal('key'), publicKey: z.string().max(8192), isSigned: z.boolean() }),
    ]),
    address: z.string().max(100),
    client: z.string().max(200).nullable(),
  }),
  lenient: OF_AGENTS,
  response: z.object({
    /** Whether the credential is one of the account's. */
    isKnown: z.boolean(),
    /** Why whoever has it does not come in. */
    refusal: z.string().nullable(),
    session: z
      .object({ sessionId: SftpSessionId, userId: z.string(), serverId: z.string(), grant: SftpGrant })
      .nullable(),
  }),
  errors: ['ACCOUNT_LOCKED', 'RATE_LIMITED'],
  audit: { action: 'sftp.session_open', resource: 'server' },
})

export const checkSftpSessions = defineEndpoint({
  id: 'sftp.check',
  tag: 'Internal',
  summary: 'Ask what the sessions of a node may do now; all others of it have ended',
  method: 'POST',
  path: '/api/agent/sftp/check',
  access: 'agent',
  body: z.object({ sessionIds: z.array(z.string().max(64)).max(SFTP_LIMITS.sessions) }),
  lenient: OF_AGENTS,
  response: z.object({ sessions: z.array(SftpState) }),
  audit: { none: 'only sessions that have ended with their agent leave a record: that of their end' },
})

export const reportSftpSession = defineEndpoint({
  id: 'sftp.report',
  tag: 'Internal',
  summary: 'Report what was done in a session, and its end',
  method: 'POST',
  path: '/api/agent/sftp/sessions/:sessionId/report',
  access: 'agent',
  params: { sessionId: SftpSessionId },
  body: z.object({
    counts: SftpCounts,
    /** Folders in which something has changed since the report before. */
    folders: z.array(z.string().max(4096)).max(SFTP_LIMITS.folders),
    allFolders: z.boolean(),
    /** Why it has ended; `null`: it goes on. */
    ended: z.string().max(300).nullable(),
  }),
  lenient: OF_AGENTS,
  response: NoData,
  audit: { action: 'sftp.session_close', resource: 'server' },
})

export const typeInSftpSession = defineEndpoint({
  id: 'sftp.command',
  tag: 'Internal',
  summary: 'Type a line into the console of the server of a session',
  method: 'POST',
  path: '/api/agent/sftp/sessions/:sessionId/command',
  access: 'agent',
  params: { sessionId: SftpSessionId },
  body: z.object({ command: z.string().min(1).max(4096) }),
  lenient: OF_AGENTS,
  response: NoData,
  errors: [
    'SFTP_SESSION_NOT_FOUND',
    'PERMISSION_DENIED',
    'SERVER_NOT_FOUND',
    'SERVER_SUSPENDED',
    'SERVER_INVALID_STATE',
    'CONSOLE_NO_INPUT',
    'CONSOLE_UNAVAILABLE',
    'NODE_OFFLINE',
    'AGENT_TIMEOUT',
    'AGENT_ERROR',
    'AGENT_VERSION',
    'RATE_LIMITED',
  ],
  audit: { none: 'the line has the record of a typed command' },
})
