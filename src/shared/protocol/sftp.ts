import { z } from 'zod'
import { AgentText, AgentId as Id } from '../kernel/agent-text.ts'
import { ShownFilePaths } from '../kernel/file-paths.ts'
import { defineRequest } from './define.ts'

/** Where an agent asks its daemon who may come in, and what sessions may do. */
export const SFTP_PATH = '/api/agent/sftp'

/** Limits both ends rely on; milliseconds and counts. */
export const SFTP_LIMITS = {
  /** How often an agent asks for the rights of its sessions beside what the daemon reports by itself. */
  checkMs: 10_000,
  /** How long sessions go on while the daemon cannot be asked. */
  unaskedMs: 60_000,
  /** Sessions of one agent. */
  sessions: 500,
  /** Folders of one report. */
  folders: 100,
} as const

/** What somebody may do in a session now. Patterns are those of .gitignore. */
export const SftpGrant = z.object({
  read: z.boolean(),
  write: z.boolean(),
  consoleRead: z.boolean(),
  consoleWrite: z.boolean(),
  /** Files that the template keeps from them. */
  denied: z.array(z.string().max(1000)).max(1000),
  /** What a member is held to by their grant; absent: all files. */
  filePaths: ShownFilePaths.optional(),
})
export type SftpGrant = z.infer<typeof SftpGrant>

/** A session and its rights; without a grant it ends, for this reason. */
export const SftpState = z.object({
  sessionId: z.string().max(64),
  grant: SftpGrant.nullable(),
  reason: z.string().max(300).nullable(),
})
export type SftpState = z.infer<typeof SftpState>

/** What was done in a session so far. */
export const SftpCounts = z.object({
  filesRead: z.int().min(0),
  filesWritten: z.int().min(0),
  bytesRead: z.int().min(0),
  bytesWritten: z.int().min(0),
  removed: z.int().min(0),
  renamed: z.int().min(0),
  foldersMade: z.int().min(0),
  linksMade: z.int().min(0),
  changed: z.int().min(0),
  commands: z.int().min(0),
})
export type SftpCounts = z.infer<typeof SftpCounts>

/** Where an agent takes SSH connections, or why it does not. */
export const SftpReport = z.object({
  enabled: z.boolean(),
  port: z.int().min(0).max(65_535),
  /** Of the host key: `SHA256:…`, as clients show it. */
  fingerprint: AgentText(100),
  problem: AgentText(300).nullable(),
})
export type SftpReport = z.infer<typeof SftpReport>

/** Rights of sessions have changed: in force before it is answered. Sessions that the agent does not have are passed over. */
export const updateSftpSessions = defineRequest({
  op: 'sftp.update',
  capability: 'sftp@1',
  input: { sessions: z.array(SftpState.extend({ sessionId: Id })).max(SFTP_LIMITS.sessions) },
})
