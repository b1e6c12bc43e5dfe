import { getMe } from '../../../shared/api/auth.ts'
import * as api from '../../../shared/api/sftp.ts'
import { isoTime } from '../../../shared/kernel/clock.ts'
import type { Data } from '../../../shared/kernel/contract.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call, deleted, ignoringNotFound, subjectOf } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

const SUBJECT = { ref: 'server', param: 'serverId' } as const

type Info = Data<typeof api.sftpInfo>

const INFO: View<Info> = {
  id: (row) => row.username,
  name: (row) => row.username,
  columns: [
    column('HOST', (row) => row.host),
    column('PORT', (row) => row.port),
    column('USER', (row) => row.username),
    column('PASSWORD', (row) => row.sftpPassword),
    column('GOOD UNTIL', (row) => ({ time: row.expiresAt === null ? null : isoTime(row.expiresAt) })),
    column('HOST KEY', (row) => row.fingerprint),
    column('PROBLEM', (row) => row.problem),
  ],
}

export const showInfo: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, SUBJECT)
  const query = { serverId, ...ttlOf(run, 'ttl'), ...(run.args.choice('token') === false ? { token: 'false' } : {}) }
  await run.out.item(await call(run, api.sftpInfo, { params: {}, query }), INFO)
}

/** Prints the token alone on stdout. */
export const rotateToken: Action = async (run) => {
  const { id: serverId, name } = await subjectOf(run, SUBJECT)
  await run.prompt.confirm(`Replace your SFTP tokens of ${name}? Sessions that came in by them end.`)
  const made = await call(run, api.rotateSftpToken, { params: {}, body: { serverId, ...ttlOf(run, 'ttlMs') } })
  if (run.out.machine) return run.out.value(made)
  await run.out.text(`${made.sftpPassword}\n`)
  run.notice(`good until ${isoTime(made.expiresAt)}; it is shown this once`)
}

const TOKEN: View<api.SftpToken> = {
  id: (row) => row.userId,
  name: (row) => row.username ?? row.email,
  columns: [
    column('USER', (row) => row.username),
    column('EMAIL', (row) => row.email),
    column('GOOD UNTIL', (row) => ({ time: isoTime(row.expiresAt) })),
    column('USED', (row) => ({ time: row.lastUsedAt })),
    wide('USER ID', (row) => row.userId),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

export const listTokens: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, SUBJECT)
  await run.out.list(await call(run, api.listSftpTokens, { params: {}, query: { serverId } }), TOKEN)
}

export const revokeTokens: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id: serverId, name } = await subjectOf(run, SUBJECT)
    const word = run.args.text('user')
    const query = { serverId }
    if (run.args.flag('all')) {
      if (word !== undefined) throw usage('--all does not go with --user')
      await run.prompt.confirm(`Revoke all SFTP tokens of ${name}?`)
      const { revoked } = await call(run, api.revokeSftpTokens, { params: {}, query })
      if (run.out.machine) return run.out.value({ revoked })
      return run.notice(`revoked ${revoked} tokens of ${name}`)
    }
    const targetUserId =
      word === undefined ? (await call(run, getMe, { params: {} })).id : (await resolve(run, 'user', word)).id
    await run.prompt.confirm(`Revoke the SFTP tokens of ${word ?? 'yours'} for ${name}?`)
    await call(run, api.revokeUserSftpTokens, { params: { tokenUserId: targetUserId }, query })
    await deleted(run, { id: targetUserId, name: `the SFTP tokens of ${word ?? 'yours'} for ${name}` })
  })
}

const SESSION: View<api.SftpSession> = {
  id: (row) => row.id,
  name: (row) => row.id,
  columns: [
    column('USER', (row) => row.username),
    column('FROM', (row) => row.ipAddress),
    column('BY', (row) => row.method),
    column('READ ONLY', (row) => row.readOnly),
    column('SINCE', (row) => ({ time: row.startedAt })),
    column('ID', (row) => row.id),
    wide('CLIENT', (row) => row.client),
    wide('NODE', (row) => row.nodeId),
  ],
}

export const listSessions = listAction(api.listSftpSessions, SESSION, async (run) => ({
  query: { serverId: (await subjectOf(run, SUBJECT)).id },
}))

export const endSession: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const sessionId = run.args.required('session')
    await run.prompt.confirm(`End the session ${sessionId}?`)
    await call(run, api.endSftpSession, { params: { sftpSessionId: sessionId } })
    await deleted(run, { id: sessionId, name: `the session ${sessionId}` })
  })
}

export const printSshCommand: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, SUBJECT)
  const info = await call(run, api.sftpInfo, { params: {}, query: { serverId, token: 'false' } })
  const { host, port, username, problem } = info
  const isSftp = run.args.flag('sftp')
  const line = isSftp ? `sftp -P ${port} ${username}@${host}` : `ssh -p ${port} ${username}@${host}`
  if (run.out.machine) return run.out.value({ command: line, host, port, username })
  await run.out.text(`${line}\n`)
  if (problem !== null) run.notice(problem)
}

function ttlOf(run: Run, field: 'ttl' | 'ttlMs'): Record<string, number> {
  const ms = run.args.duration('ttl')
  return ms === undefined ? {} : { [field]: ms }
}
