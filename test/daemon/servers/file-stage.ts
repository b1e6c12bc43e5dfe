import { join } from 'node:path'
import { createServer, getServer } from '../../../src/shared/api/servers.ts'
import { createTemplate } from '../../../src/shared/api/templates.ts'
import type { ServerId } from '../../../src/shared/kernel/ids.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { quietPort } from '../../ports.ts'
import { eventually } from '../gateway-stage.ts'

/** What the API has answered. */
export interface FileAnswer {
  readonly status: number
  readonly code: string | undefined
  /** Of whatever shape the endpoint has. */
  readonly data: ReturnType<typeof JSON.parse>
  readonly details: readonly { field: string; message: string }[] | undefined
}

/** A panel with its agent, one server and that server's folder. */
export interface FileStage {
  readonly panel: TestPanel
  readonly serverId: ServerId
  readonly folder: string
  /** `path` is what follows `/files`, the query among it. Who waits no longer than `mostMs` goes then. */
  ask(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
    mostMs?: number,
  ): Promise<FileAnswer>
  /** One more server beside it. */
  another(name: string): Promise<{ readonly serverId: ServerId; readonly folder: string }>
  close(): Promise<void>
}

/** Starts it; no limit of requests is in the way. */
export async function enterFileStage({ diskMb = 512 }: { readonly diskMb?: number } = {}): Promise<FileStage> {
  process.env['PANEL_PULL__ALLOWED_RANGES'] = '127.0.0.2/32' // sources of tests listen there
  process.env['PANEL_PULL__ALLOWED_PORTS'] = '1024-65535'
  const panel = await startPanel({ agent: true })
  await panel.configure('limits.fileRequestsPerMinute', 1_000_000)
  const { client, nodeId, locationId } = panel
  const body = { name: 'Files', startup: 'sleep 1000', installScript: 'echo installed', installEntrypoint: 'sh' }
  const kept = { fileDenylist: ['*.secret', '/vault/'], mounts: [{ source: '/srv/maps', target: 'maps' }] }
  const template = await client.call(createTemplate, { body: { ...body, ...kept } })
  const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb: diskMb }
  const make = async (name: string): Promise<ServerId> => {
    const place = { nodeId, locationId, templateId: template.id, primaryPort: await quietPort() }
    const { id } = await client.call(createServer, { body: { name, ...sizes, ...place } as never })
    await eventually(
      () => client.call(getServer, { params: { serverId: id } }),
      ({ installed, status }) => installed && status === 'stopped',
    )
    return id
  }
  const folderOf = (id: string): string => join(panel.dataDir, 'agent', 'servers', id)
  const id = await make('files')
  return {
    panel,
    serverId: id,
    folder: folderOf(id),
    ask: async (method, path, content, more = {}, mostMs = undefined) => {
      const headers: Record<string, string> = { authorization: `Bearer ${panel.adminToken}`, ...more }
      if (content !== undefined) headers['content-type'] = 'application/json'
      const response = await fetch(`${panel.url}/api/servers/${id}/files${path}`, {
        method,
        headers,
        ...(content === undefined ? {} : { body: JSON.stringify(content) }),
        ...(mostMs === undefined ? {} : { signal: AbortSignal.timeout(mostMs) }),
      })
      const { data, code, details } = JSON.parse(await response.text())
      return { status: response.status, code, data, details }
    },
    another: async (name) => {
      const serverId = await make(name)
      return { serverId, folder: folderOf(serverId) }
    },
    close: () => panel.close(),
  }
}
