import { updateSftpSessions } from '../../shared/protocol/sftp.ts'
import { onRequest, type RequestHandler } from '../link/request-handler.ts'
import type { SshServer } from './ssh-server.ts'

/** What the answers to requests of SFTP are made from. */
export interface SftpRequestDeps {
  readonly sftp: Pick<SshServer, 'update'> | undefined
}

/** The requests of SFTP. */
export function sftpRequests({ sftp }: SftpRequestDeps): readonly RequestHandler[] {
  return [onRequest(updateSftpSessions, ({ sessions }) => sftp?.update(sessions))]
}
