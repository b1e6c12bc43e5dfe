import { join } from 'node:path'
import type { Backup } from '../../../src/shared/api/backups.ts'
import { getJob, type Job } from '../../../src/shared/api/jobs.ts'
import { createServer, getServer } from '../../../src/shared/api/servers.ts'
import { createTemplate } from '../../../src/shared/api/templates.ts'
import type { ServerId } from '../../../src/shared/kernel/ids.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { quietPort } from '../../ports.ts'
import { eventually } from '../gateway-stage.ts'

/** What the API has answered. */
export interface Answered {
  readonly status: number
  readonly code: string | undefined
  /** Of whatever shape the endpoint has. */
  readonly data: ReturnType<typeof JSON.parse>
  readonly pagination: ReturnType<typeof JSON.parse>
  readonly error: string | undefined
}

/** A panel with its agent, one server and that server's folder. */
export interface BackupStage {
  readonly panel: TestPanel
  readonly serverId: ServerId
  readonly folder: string
  /** `path` is what follows `/backups` of the server. */
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answered>
  /** `path` is what follows `/api`. */
  api(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answered>
  /** Asks, and waits for the job that was started. */
  done(method: string, path: string, body?: unknown): Promise<Job>
  /** Makes a backup and waits for it, however it ends. */
  make(body?: object, serverId?: string): Promise<Backup>
  get(backupId: string): Promise<Backup>
  job(jobId: string): Promise<Job>
  /** One more server beside it. */
  another(name: string, startup?: string): Promise<{ readonly serverId: ServerId; readonly folder: string }>
  close(): Promise<void>
}

const READY = { done: [{ kind: 'contains' as const, value: 'ready' }] }

/** Starts it; no limit of requests is in the way. */
export async function enterBackupStage(startup = 'sleep 1000'): Promise<BackupStage> {
  const panel = await startPanel({ agent: true })
  await panel.configure('limits.fileRequestsPerMinute', 1_000_000)
  const { client, nodeId, locationId } = panel
  const make = async (name: string, line: string): Promise<{ serverId: ServerId; folder: string }> => {
    const body = {
      name: `Backups ${name}`,
      startup: line,
      installScript: 'echo installed',
      installEntrypoint: 'sh',
      startupDetection: READY,
    }
    const template = await client.call(createTemplate, { body })
    const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb: 512 }
    const place = { nodeId, locationId, templateId: template.id, primaryPort: await quietPort() }
    const { id } = await client.call(createServer, {
      body: { name, ...sizes, ...place, databaseAllocation: 10 } as never,
    })
    await eventually(
      () => client.call(getServer, { params: { serverId: id } }),
      ({ installed, status }) => installed && status === 'stopped',
    )
    return { serverId: id, folder: join(panel.dataDir, 'agent', 'servers', id) }
  }
  const { serverId, folder } = await make('backups', startup)
  const api: BackupStage['api'] = async (method, path, content, more = {}) => {
    const headers: Record<string, string> = { authorization: `Bearer ${panel.adminToken}`, ...more }
    if (content !== undefined) headers['content-type'] = 'application/json'
    const response = await fetch(`${panel.url}/api${path}`, {
      method,
      headers,
      ...(content === undefined ? {} : { body: JSON.stringify(content) }),
    })
    const { data, code, error, pagination } = JSON.parse(await response.text())
    return { status: response.status, code, data, pagination, error }
  }
  const ask: BackupStage['ask'] = (method, path, ...rest) => api(method, `/servers/${serverId}/backups${path}`, ...rest)
  const job = (jobId: string): Promise<Job> =>
    eventually(
      () => client.call(getJob, { params: { jobId: jobId as never } }),
      ({ endedAt }) => endedAt !== null,
    )
  const done: BackupStage['done'] = async (method, path, body) => {
    const answer = await ask(method, path, body)
    if (answer.status !== 202) throw new Error(`${method} ${path}: ${answer.status} ${answer.code} ${answer.error}`)
    return await job(answer.data.jobId)
  }
  return {
    ...{ panel, serverId, folder, ask, api, done, job },
    make: async (body = {}, of = serverId) => {
      const { status, data, code, error } = await api('POST', `/servers/${of}/backups`, body)
      if (status !== 202) throw new Error(`${status} ${code} ${error}`)
      await job(data.jobId)
      return (await api('GET', `/backups/${data.backupId}`)).data
    },
    get: async (backupId) => (await api('GET', `/backups/${backupId}`)).data,
    another: (name, line = startup) => make(name, line),
    close: () => panel.close(),
  }
}
