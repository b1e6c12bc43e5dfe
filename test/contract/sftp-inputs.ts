import { sftpInfo } from '../../src/shared/api/sftp.ts'
import type { Make } from './inputs.ts'
import { addKey, openSession, publicKeyLine } from './sftp-session.ts'
import type { World } from './world.ts'

const ofServer = ({ ids }: World): { serverId: string } => ({ serverId: ids['serverId'] ?? '' })

/** Valid requests of the endpoints of SFTP and of SSH keys. */
export const SFTP_INPUTS: Readonly<Record<string, Make>> = {
  'sftp.end_session': async (world) => {
    const at = { userId: world.powerlessId, ...ofServer(world), nodeId: world.ids['nodeId'] ?? '' }
    return { params: { sftpSessionId: await openSession(world.panel, at) } }
  },
  'sftp.info': (world) => ({ query: ofServer(world) }),
  'sftp.revoke': async (world) => {
    await makeToken(world)
    return { query: ofServer(world) }
  },
  'sftp.revoke_user': async (world) => {
    await makeToken(world)
    return { params: { tokenUserId: world.adminId }, query: ofServer(world) }
  },
  'sftp.rotate': (world) => ({ body: ofServer(world), otherBody: { ...ofServer(world), ttlMs: 60_000 } }),
  'sftp.sessions': (world) => ({ query: ofServer(world) }),
  'sftp.tokens': (world) => ({ query: ofServer(world) }),
  'ssh_keys.add': () => ({ body: { publicKey: publicKeyLine() }, otherBody: { publicKey: publicKeyLine() } }),
  'ssh_keys.delete': async ({ admin }) => ({ params: { sshKeyId: await addKey(admin) } }),
}

async function makeToken(world: World): Promise<void> {
  await world.admin.call(sftpInfo, { query: { serverId: ofServer(world).serverId as never } })
}
