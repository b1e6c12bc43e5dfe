import type { ServerBelongings, SourceSnapshot } from './plan/state.ts'
import type { SourceKind, SourceList, SourceServer, UnreadableItem } from './source/model.ts'
import { type Source, SourceFailure } from './source/source.ts'

/** How many servers are asked about at a time; the source's own throttle holds beside it. */
const AT_A_TIME = 4

/** Reads all of a source that a plan looks at; of servers that `isWanted` also what belongs to them. Passwords are left out. */
export async function readSnapshot(
  source: Source,
  { isWanted, signal }: { readonly isWanted: (server: SourceServer) => boolean; readonly signal: AbortSignal },
): Promise<SourceSnapshot> {
  const unreadable: UnreadableItem[] = []
  const items = async <T>(list: Promise<SourceList<T>>): Promise<readonly T[]> => {
    const read = await list
    unreadable.push(...read.unreadable)
    return read.items
  }
  /** What the source shows of a server that may be used, and of no other: that is reported, and the server comes without it. */
  const ofServer = async <T>(server: SourceServer, kind: SourceKind, list: Promise<SourceList<T>>) => {
    try {
      return await items(list)
    } catch (error) {
      if (!(error instanceof SourceFailure) || error.problem !== 'state') throw error
      const reason = `${error.message}; when it may be used there, another run brings them`
      unreadable.push({ kind, id: `${kind}s of ${server.id}`, name: `${kind}s of ${server.name}`, reason })
      return []
    }
  }
  const locations = await items(source.locations(signal))
  const nests = await items(source.nests(signal))
  const eggs = await items(source.eggs(signal))
  const nodes = await items(source.nodes(signal))
  const users = await items(source.users(signal))
  const servers = await items(source.servers(signal))
  const mounts = await source.mounts(signal)
  if (mounts !== null) unreadable.push(...mounts.unreadable)
  const perServer = new Map<string, ServerBelongings>()
  const waiting = servers.filter(isWanted)
  const next = waiting.values()
  const belongingsOf = async (server: SourceServer): Promise<ServerBelongings> => {
    const databases = await items(source.databases(server, signal))
    return {
      subusers: server.subusers ?? (await ofServer(server, 'subuser', source.subusers(server, signal))),
      databases: databases.map(({ password: _secret, ...database }) => database),
      schedules: await ofServer(server, 'schedule', source.schedules(server, signal)),
      backups: await ofServer(server, 'backup', source.backups(server, signal)),
    }
  }
  const gone = new Set<SourceServer>()
  const read = async (): Promise<void> => {
    for (const server of next) {
      try {
        perServer.set(server.id, await belongingsOf(server))
      } catch (error) {
        // Somebody has deleted it since the list was read; of one that is still there something else is wrong.
        const isMissing = error instanceof SourceFailure && error.problem === 'missing'
        if (!isMissing || (await source.server(server.id, signal)) !== undefined) throw error
        gone.add(server)
        unreadable.push({ kind: 'server', id: server.id, name: server.name, reason: 'it has just been deleted there' })
      }
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, read))
  const { flavor, fingerprint } = source
  const losses = source.losses(users)
  const there = servers.filter((server) => !gone.has(server))
  const all = { locations, nests, eggs, nodes, users, servers: there, mounts: mounts?.items ?? [] }
  const isDirectory = source.directory !== null
  const { perMinute: requestsPerMinute } = source.usage
  return { flavor, fingerprint, isDirectory, ...all, perServer, unreadable, losses, requestsPerMinute }
}
