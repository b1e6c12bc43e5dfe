import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPane, type Pane } from './pane.ts'
import { type Peer, startPeer } from './peer.ts'

/** A console screen in a pane, attached to a peer. */
export interface Attached {
  readonly pane: Pane
  readonly peer: Peer
  /** A folder of this screen alone; the shell of the pane stands in it. */
  readonly folder: string
  /** The shell line that attaches again; `wishes` as for {@link attach}. */
  command(wishes?: Record<string, unknown>): string
  close(): Promise<void>
}

export interface AttachOptions {
  readonly dist: string
  readonly columns: number
  readonly rows: number
  readonly wishes?: Record<string, unknown>
  /** Called before the screen starts. */
  readonly prepare?: (peer: Peer) => void
  readonly start?: boolean
}

/** Starts a peer, a pane and the screen in it; ready when the screen is live. */
export async function attach(options: AttachOptions): Promise<Attached> {
  const peer = await startPeer()
  options.prepare?.(peer)
  const folder = await mkdtemp(join(tmpdir(), 'panel-tui-'))
  const pane = await openPane(options.columns, options.rows)
  const command = (wishes: Record<string, unknown> = {}): string => {
    const all = {
      baseUrl: peer.baseUrl,
      historyPath: join(folder, 'history', 'survival-1'),
      ...options.wishes,
      ...wishes,
    }
    return `node ${join(import.meta.dirname, 'attach.js')} ${options.dist} '${JSON.stringify(all)}'; echo "EXIT=$?"`
  }
  await pane.text(`cd ${folder} && clear`)
  await pane.keys('Enter')
  if (options.start !== false) {
    await pane.text(command())
    await pane.keys('Enter')
    await pane.shows('LIVE', 20_000)
  }
  return {
    pane,
    peer,
    folder,
    command,
    close: async () => {
      await pane.close()
      await peer.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
