import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  getMigration,
  type MigrationDetail,
  type MigrationStep,
  startMigration,
} from '../../../src/shared/api/migration.ts'
import { getNode, updateNode } from '../../../src/shared/api/nodes.ts'
import { getServer, listServers, type Server } from '../../../src/shared/api/servers.ts'
import type { MigrationId, NodeId } from '../../../src/shared/kernel/ids.ts'
import { type SourceOptions, type SourceSimulator, startSource } from '../../migration-source/source-simulator.ts'
import { type PanelOptions, startPanel, type TestPanel } from '../../panel.ts'

/** What a start is asked with beside the source and its keys; any JSON, also wrong one. */
export type StartBody = Readonly<Record<string, unknown>>

const LOOK_MS = 25

/** A panel with its agent, and a source to move in from. */
export class MigrationStage {
  readonly panel: TestPanel
  readonly source: SourceSimulator

  static async open({
    source = {},
    panel = {},
  }: {
    readonly source?: SourceOptions
    readonly panel?: PanelOptions
  } = {}): Promise<MigrationStage> {
    // A test asks more in a minute than a source allows; those that are about that say so.
    const faults = { throttle: 100_000, ...source.faults }
    const [simulator, daemon] = await Promise.all([
      startSource({ ...source, faults }),
      startPanel({ agent: true, ...panel }),
    ])
    const stage = new MigrationStage(daemon, simulator)
    await stage.online()
    await daemon.client.call(updateNode, {
      params: { nodeId: daemon.nodeId as NodeId },
      body: { maxMemoryMb: 10_000_000, maxCpuCores: 1000 },
    })
    return stage
  }

  private constructor(panel: TestPanel, source: SourceSimulator) {
    this.panel = panel
    this.source = source
  }

  async close(): Promise<void> {
    await this.panel.close()
    await this.source.close()
  }

  /** Resolves when servers can be moved to the node. */
  async online(): Promise<void> {
    const { client, nodeId } = this.panel
    const isOnline = async () => (await client.call(getNode, { params: { nodeId: nodeId as NodeId } })).isOnline
    for (const until = performance.now() + 30_000; !(await isOnline()); ) {
      if (performance.now() > until) throw new Error('the node does not come online')
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }

  /** All nodes of the source to the panel's one, with what the request has beside it. */
  body(more: StartBody = {}): StartBody {
    const { nodeId } = this.panel
    const { options: given, ...rest } = more
    const nodes = this.source.world.nodes.map(({ id }) => [String(id), nodeId])
    const options = { conflicts: { port: 'remap' }, runtimes: ['process'], ...(given as object) }
    const { url, keys } = this.source
    return {
      url,
      key: keys.application,
      clientApiKey: keys.account,
      nodeMappings: Object.fromEntries(nodes),
      options,
      ...rest,
    }
  }

  async start(more: StartBody = {}): Promise<MigrationId> {
    const { jobId } = await this.panel.client.call(startMigration, { body: this.body(more) as never })
    return jobId
  }

  get(jobId: MigrationId): Promise<MigrationDetail> {
    return this.panel.client.call(getMigration, { params: { jobId } })
  }

  /** The migration, once it is in one of these states. */
  async in(jobId: MigrationId, statuses: readonly string[] = ENDS, patienceMs = 60_000): Promise<MigrationDetail> {
    for (const until = performance.now() + patienceMs; ; ) {
      const job = await this.get(jobId)
      if (statuses.includes(job.status)) return job
      if (performance.now() > until) {
        const open = job.steps.filter(({ status }) => status === 'running' || status === 'pending').slice(0, 5)
        throw new Error(`the migration is still ${job.status}: ${JSON.stringify(open, null, 1)}`)
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }

  /** Starts one and waits for its end. */
  async moved(more: StartBody = {}): Promise<MigrationDetail> {
    const job = await this.in(await this.start(more))
    if (job.steps.some(({ errorCode }) => errorCode === 'AGENT_ERROR')) {
      // Why is only in the log.
      const said = this.panel
        .log()
        .split('\n')
        .filter((line) => line.includes('"err"'))
      throw new Error(`the agent has failed: ${said.slice(-5).join('\n')}`)
    }
    return job
  }

  async servers(): Promise<Server[]> {
    const { client } = this.panel
    const listed = await client.call(listServers, { query: { limit: 100 } })
    return Promise.all(listed.map(({ id }) => client.call(getServer, { params: { serverId: id } })))
  }

  /** SHA-256 of all files of a server on the node, by path. */
  async filesOf(serverId: string): Promise<Record<string, string>> {
    const folder = join(this.panel.dataDir, 'agent', 'servers', serverId)
    const found = await readdir(folder, { recursive: true, withFileTypes: true })
    const files = found.filter((entry) => entry.isFile())
    const hashes = files.map(async ({ parentPath, name }) => {
      const path = join(parentPath, name)
      const sha256 = createHash('sha256')
        .update(await readFile(path))
        .digest('hex')
      return [path.slice(folder.length + 1), sha256] as const
    })
    return Object.fromEntries((await Promise.all(hashes)).sort())
  }

  /** The same of the source, by the server's uuid. */
  manifestOf(uuid: string): Record<string, string> {
    const files = this.source.manifest()[uuid] ?? {}
    return Object.fromEntries(
      Object.entries(files)
        .map(([path, { sha256 }]) => [path, sha256] as const)
        .sort(),
    )
  }
}

const ENDS = ['completed', 'failed', 'cancelled']

/** Steps that have failed, as a test shows them when there should be none. */
export function failedSteps({ steps }: MigrationDetail): string[] {
  return steps.filter(({ status }) => status === 'failed').map(shown)
}

function shown({ action, name, errorCode, error }: MigrationStep): string {
  return `${action} ${name}: ${errorCode} ${error}`
}
