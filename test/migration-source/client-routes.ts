import { DONE, invalid, notFound, ok, Refusal, signedUrl } from './answer.ts'
import { countedOf } from './backups.ts'
import { bytesOf, FIRST_MS } from './files.ts'
import { fileOf, listingOf, modeText } from './folder.ts'
import { byId, get, paged, type RouteContext, reachable, type SimRoute } from './route.ts'
import type { SimBackup, SimServer, SimWorld } from './rows.ts'
import { downloadClaims, signedToken } from './tokens.ts'
import { item, list, stamp, type View } from './view.ts'

const CLIENT = '/api/client'

/** The routes of the client API. */
export const CLIENT_ROUTES: readonly SimRoute[] = [
  get(CLIENT, null, (c) => {
    const all = c.query.get('type') === 'admin-all' && c.caller.rootAdmin
    const isOwn = (server: SimServer): boolean =>
      server.ownerId === c.caller.id || server.subusers.some(({ userId }) => userId === c.caller.id)
    const rows = c.world.servers.filter((server) => all || isOwn(server))
    return ok(paged(c, rows, (row) => c.client.server(row, c.caller, c.includes), { most: 100 }))
  }),
  get(`${CLIENT}/account`, null, (c) => ok(c.client.account(c.caller))),
  get(`${CLIENT}/account/ssh-keys`, null, (c) => ok(list(c.world.sshKeys.map(sshKey)))),
  {
    method: 'POST',
    path: `${CLIENT}/account/ssh-keys`,
    resource: null,
    handle: (c) => {
      const { name, public_key: publicKey } = c.body
      if (typeof name !== 'string' || typeof publicKey !== 'string') throw invalid('public_key', 'required')
      const key = { name, publicKey, fingerprint: `SHA256:${c.world.sshKeys.length}` }
      c.world.sshKeys.push(key)
      return ok(sshKey(key))
    },
  },
  get(`${CLIENT}/servers/:server`, null, (c) => {
    const server = serverOf(c)
    const meta = { is_server_owner: server.ownerId === c.caller.id, user_permissions: ['*'] }
    return ok({ ...c.client.server(server, c.caller, c.includes), meta })
  }),
  get(`${CLIENT}/servers/:server/resources`, null, (c) => {
    const server = serverOf(c)
    reachable(c, server)
    const usage = {
      memory_bytes: 0,
      cpu_absolute: 0,
      disk_bytes: 0,
      network_rx_bytes: 0,
      network_tx_bytes: 0,
      uptime: 0,
    }
    const isSuspended = server.status === 'suspended'
    return ok(item('stats', { current_state: server.power, is_suspended: isSuspended, resources: usage }))
  }),
  get(`${CLIENT}/servers/:server/schedules`, null, (c) =>
    ok(list(usable(c).schedules.map((row) => c.client.schedule(row)))),
  ),
  get(`${CLIENT}/servers/:server/users`, null, (c) => ok(c.client.subusers(usable(c)))),
  get(`${CLIENT}/servers/:server/databases`, null, (c) =>
    ok(list(usable(c).databases.map((row) => c.client.database(row, c.includes)))),
  ),
  get(`${CLIENT}/servers/:server/network/allocations`, null, (c) => ok(c.client.allocations(usable(c)))),
  get(`${CLIENT}/servers/:server/backups`, null, (c) => {
    const { backups } = usable(c)
    const answer = paged(c, backups, (row) => c.client.backup(row), { perPage: 20, most: 50 })
    return ok({ ...answer, meta: { ...(answer['meta'] as View), backup_count: countedOf(backups).length } })
  }),
  get(`${CLIENT}/servers/:server/backups/:backup`, null, (c) => ok(c.client.backup(backupOf(c, usable(c))))),
  {
    method: 'POST',
    path: `${CLIENT}/servers/:server/backups`,
    resource: null,
    handle: (c) => {
      const server = usable(c)
      reachable(c, server)
      return ok(c.client.backup(c.backups.create(server, c.body)))
    },
  },
  {
    method: 'DELETE',
    path: `${CLIENT}/servers/:server/backups/:backup`,
    resource: null,
    handle: (c) => {
      const server = usable(c)
      reachable(c, server)
      c.backups.remove(server, backupOf(c, server))
      return DONE
    },
  },
  get(`${CLIENT}/servers/:server/backups/:backup/download`, null, (c) => {
    const server = usable(c)
    const backup = backupOf(c, server)
    if (backup.completedMs === null) {
      throw new Refusal(400, 'BadRequestHttpException', 'The backup has not been completed yet.')
    }
    if (c.world.options.s3) return signedUrl(c.s3Url(backup))
    return signedUrl(wingsUrl(c, server, 'backup', { backup_uuid: backup.uuid, scope: 'backup-download' }))
  }),
  get(`${CLIENT}/servers/:server/files/list`, null, (c) => {
    const server = usable(c, { isFiles: true })
    reachable(c, server)
    const rows = listingOf(server, c.query.get('directory') ?? '/')
    if (rows === undefined)
      throw new Refusal(404, 'DaemonConnectionException', 'The requested directory does not exist.')
    return ok(
      list(
        rows.map(({ name, kind, file }) =>
          item('file_object', {
            name,
            mode: modeText(kind, file?.mode),
            mode_bits: (file?.mode ?? 0o755).toString(8),
            size: file?.size ?? 4096,
            is_file: kind === 'file',
            is_symlink: kind === 'link',
            mimetype: kind === 'directory' ? 'inode/directory' : 'application/octet-stream',
            created_at: stamp(FIRST_MS),
            modified_at: stamp(file?.mtimeMs ?? FIRST_MS),
          }),
        ),
      ),
    )
  }),
  get(`${CLIENT}/servers/:server/files/contents`, null, (c) => {
    const server = usable(c, { isFiles: true })
    reachable(c, server)
    const [path, file] = fileOf(server, c.query.get('file') ?? '') ?? []
    if (path === undefined || file === undefined) throw notFound()
    return { status: 200, body: null, bytes: bytesOf(server.tree, path, file) }
  }),
  get(`${CLIENT}/servers/:server/files/download`, null, (c) => {
    const server = usable(c, { isFiles: true })
    return signedUrl(wingsUrl(c, server, 'file', { file_path: c.query.get('file') ?? '', scope: 'file-download' }))
  }),
  {
    method: 'POST',
    path: `${CLIENT}/servers/:server/power`,
    resource: null,
    handle: (c) => {
      const server = usable(c)
      reachable(c, server)
      const { signal } = c.body
      if (!['start', 'stop', 'restart', 'kill'].includes(String(signal))) throw invalid('signal', 'in')
      changePower(server, String(signal), c.faults().stopMs)
      return DONE
    },
  },
]

/** By uuid, or by the first eight characters of it. */
function serverOf(c: RouteContext): SimServer {
  const key = c.params['server'] ?? ''
  const found = c.world.servers.find(({ uuid }) => uuid === key || uuid.slice(0, 8) === key)
  const isMine =
    c.caller.rootAdmin ||
    found?.ownerId === c.caller.id ||
    found?.subusers.some(({ userId }) => userId === c.caller.id) === true
  if (found === undefined || !isMine) throw notFound()
  return found
}

/**
 * A server that its client API may be used for. Where it is suspended, the administrators of newer ones still reach its files.
 */
function usable(c: RouteContext, { isFiles = false } = {}): SimServer {
  const server = serverOf(c)
  const node = byId(c.world.nodes, String(server.nodeId))
  const refused = (detail: string): Refusal => new Refusal(409, 'ServerStateConflictException', detail)
  if (node.isInMaintenance) {
    throw refused('The node of this server is currently under maintenance.')
  }
  if (server.status === null) return server
  if (server.status !== 'suspended') throw refused('This server is currently in an unsupported state.')
  if (isFiles && c.caller.rootAdmin && c.world.options.flavor === 'pelican') return server
  throw refused('This server is currently suspended and the functionality requested is unavailable.')
}

function changePower(server: SimServer, signal: string, stopMs: number): void {
  if (signal === 'start' || signal === 'restart') server.power = 'running'
  else if (signal === 'kill' || stopMs === 0) server.power = 'offline'
  else {
    server.power = 'stopping'
    setTimeout(() => {
      if (server.power === 'stopping') server.power = 'offline'
    }, stopMs).unref()
  }
}

function backupOf(c: RouteContext, server: SimServer): SimBackup {
  const found = server.backups.find(({ uuid }) => uuid === c.params['backup'])
  if (found === undefined) throw notFound()
  return found
}

function wingsUrl(
  c: RouteContext,
  server: SimServer,
  kind: 'backup' | 'file',
  { scope, ...more }: Record<string, string>,
): string {
  const node = byId(c.world.nodes, String(server.nodeId))
  const claims = {
    ...downloadClaims({ server, userUuid: c.caller.uuid, userId: c.caller.id, url: c.url }),
    ...more,
    ...(c.world.options.flavor === 'pelican' ? { scope } : {}),
  }
  return `${c.nodeUrl(node)}/download/${kind}?token=${signedToken(node.token, claims)}`
}

const sshKey = ({ name, publicKey, fingerprint }: SimWorld['sshKeys'][number]): View =>
  item('ssh_key', { name, fingerprint, public_key: publicKey, created_at: stamp(FIRST_MS) })
