import { pathOf, type SourceHttp } from './http.ts'
import type { SourceBackup, SourceList, SourceServer } from './model.ts'
import { NodeTrees } from './node-tree.ts'
import { itemOf, readItem } from './rows.ts'
import {
  type SourceBuild,
  type SourceDownload,
  SourceFailure,
  type SourceFiles,
  type SourcePower,
  type SourceTree,
} from './source.ts'
import { backupOf, buildOf, serverOf } from './views.ts'

/** Names of backups are kept up to here; a longer one would be refused. */
const MOST_NAME = 191

/** What makes the files of servers ready to be fetched, over the API of accounts. */
export class PanelFiles implements SourceFiles {
  readonly #http: SourceHttp
  readonly #trees: NodeTrees
  readonly #source: {
    readonly flavor: string
    backups(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceBackup>>
  }

  constructor(
    http: SourceHttp,
    source: {
      readonly flavor: string
      backups(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceBackup>>
    },
  ) {
    this.#http = http
    this.#trees = new NodeTrees(http)
    this.#source = source
  }

  async findBackup(server: SourceServer, name: string, signal: AbortSignal): Promise<SourceBackup | undefined> {
    const { items } = await this.#source.backups(server, signal)
    const own = items.filter((backup) => backup.name === name)
    const of = (state: SourceBackup['state']): SourceBackup | undefined => own.find((one) => one.state === state)
    return of('good') ?? of('pending') ?? own[0]
  }

  async createBackup(
    server: SourceServer,
    { name, ignored }: { readonly name: string; readonly ignored: readonly string[] },
    signal: AbortSignal,
  ): Promise<SourceBackup> {
    if (name.length > MOST_NAME)
      throw new SourceFailure('rejected', `names of backups have up to ${MOST_NAME} characters`)
    // A failed one has ended: it is nothing that could be adopted.
    const lookUp = async (): Promise<SourceBackup | undefined> => {
      const found = await this.findBackup(server, name, signal)
      return found?.state === 'failed' ? undefined : found
    }
    const before = await lookUp()
    if (before !== undefined) return before
    return await this.#http.post(
      {
        api: 'client',
        path: pathOf`/servers/${server.uuid}/backups`,
        body: { name, ignored: ignored.join('\n'), is_locked: false },
      },
      { read: (answer) => readItem('backup', answer, backupOf), lookUp },
      signal,
    )
  }

  async backup(server: SourceServer, uuid: string, signal: AbortSignal): Promise<SourceBackup | undefined> {
    const path = pathOf`/servers/${server.uuid}/backups/${uuid}`
    const answer = await ifThere(this.#http.request({ api: 'client', method: 'GET', path }, signal))
    return answer === undefined ? undefined : readItem('backup', answer, backupOf)
  }

  async download(server: SourceServer, uuid: string, signal: AbortSignal): Promise<SourceDownload> {
    const path = pathOf`/servers/${server.uuid}/backups/${uuid}/download`
    const { url } = itemOf(await this.#http.request({ api: 'client', method: 'GET', path }, signal), 'a download')
    if (typeof url !== 'string' || url.length > 8192 || !URL.canParse(url)) {
      throw new SourceFailure('not-a-source', 'the source answers no URL for the download of a backup')
    }
    return { url }
  }

  async deleteBackup(server: SourceServer, uuid: string, signal: AbortSignal): Promise<void> {
    const path = pathOf`/servers/${server.uuid}/backups/${uuid}`
    await ifThere(this.#http.request({ api: 'client', method: 'DELETE', path }, signal))
  }

  async tree(server: SourceServer, signal: AbortSignal): Promise<SourceTree | undefined> {
    return await this.#trees.open(server, signal)
  }

  async build(serverId: string, signal: AbortSignal): Promise<SourceBuild> {
    return readItem('server', await this.#serverOf(serverId, signal), buildOf)
  }

  async setBuild(serverId: string, build: SourceBuild, signal: AbortSignal): Promise<void> {
    const { limits, featureLimits } = build
    // All of it is sent: what is missing would be taken for nothing, and a limit of 0 means none.
    const body = {
      allocation: Number(build.allocationId),
      oom_disabled: limits.isOomKillerOff,
      ...(this.#source.flavor === 'pelican' ? { oom_killer: !limits.isOomKillerOff } : {}),
      limits: {
        memory: limits.memoryMb,
        swap: limits.swapMb,
        disk: limits.diskMb,
        io: limits.ioWeight,
        cpu: limits.cpuPercent,
        threads: limits.threads,
      },
      feature_limits: { ...featureLimits },
    }
    await this.#http.request(
      { api: 'application', method: 'PATCH', path: pathOf`/servers/${serverId}/build`, body },
      signal,
    )
  }

  async setSuspended(serverId: string, isSuspended: boolean, signal: AbortSignal): Promise<void> {
    const isDone = async (): Promise<true | undefined> => {
      const server = readItem('server', await this.#serverOf(serverId, signal), serverOf)
      return server.isSuspended === isSuspended ? true : undefined
    }
    if ((await isDone()) === true) return
    const path = isSuspended ? pathOf`/servers/${serverId}/suspend` : pathOf`/servers/${serverId}/unsuspend`
    await this.#http.post({ api: 'application', path }, { read: () => true, lookUp: isDone }, signal)
  }

  async power(server: SourceServer, signal: AbortSignal): Promise<SourcePower> {
    const path = pathOf`/servers/${server.uuid}/resources`
    const answer = await this.#http.request({ api: 'client', method: 'GET', path }, signal)
    const state = itemOf(answer, 'the state of a server')['current_state']
    return state === 'running' || state === 'starting' || state === 'stopping' || state === 'offline'
      ? state
      : 'unknown'
  }

  async setPower(server: SourceServer, action: 'start' | 'stop' | 'kill', signal: AbortSignal): Promise<void> {
    const reached: readonly SourcePower[] = action === 'start' ? ['running', 'starting'] : ['offline', 'stopping']
    const isDone = async (): Promise<true | undefined> =>
      reached.includes(await this.power(server, signal)) ? true : undefined
    const path = pathOf`/servers/${server.uuid}/power`
    await this.#http.post(
      { api: 'client', path, body: { signal: action } },
      { read: () => true, lookUp: isDone },
      signal,
    )
  }

  async #serverOf(serverId: string, signal: AbortSignal): Promise<unknown> {
    const path = pathOf`/servers/${serverId}`
    return await this.#http.request({ api: 'application', method: 'GET', path }, signal)
  }
}

async function ifThere(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof SourceFailure && error.problem === 'missing') return undefined
    throw error
  }
}
