import { SftpReport } from '../../../../shared/protocol/sftp.ts'
import type { SftpDeps } from './deps.ts'

/** With what the present state of nodes is known. */
export interface SftpServerDeps extends SftpDeps {
  isOnline(nodeId: string): boolean
}

const USUAL_PORT = 2022

/** Where the SSH server of a node is reached, as its agent has reported it last, or why it is not. */
export async function sftpOfNode({ db, isOnline }: SftpServerDeps, nodeId: string) {
  const node = await db.read
    .selectFrom('node')
    .select(['publicAddress', 'sftp'])
    .where('id', '=', nodeId)
    .executeTakeFirstOrThrow()
  const report = node.sftp === null ? undefined : SftpReport.parse(JSON.parse(node.sftp))
  const problem =
    report === undefined
      ? 'The agent of the node is too old for SFTP; update it'
      : (report.problem ?? (isOnline(nodeId) ? null : 'The node of the server is offline'))
  return {
    enabled: report?.enabled === true && problem === null,
    problem,
    host: node.publicAddress,
    port: report === undefined || report.port === 0 ? USUAL_PORT : report.port,
    fingerprint: report === undefined || report.fingerprint === '' ? null : report.fingerprint,
  }
}
