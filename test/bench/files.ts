import { mkdir, open, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { quietPort } from '../ports.ts'
import type { BareTransfersOptions } from './bare-transfers.ts'
import { BenchPanel } from './bench-panel.ts'
import { atLeast, type Figures, type Measurement, median, shown, spread, under } from './figure.ts'
import { load } from './http-load.ts'
import { Helper } from './processes.ts'

const MIB = 1024 * 1024
const SIZE_MIB = 512
const ROUNDS = 5
const ENTRIES = 10_000

/** Where bytes go to or come from. */
interface Way {
  readonly url: string
  readonly token?: string
}

/** Bytes of a file through client, daemon, agent and disk against bare Node with the same hops, and the list of a large folder. */
export const files: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  const [between, disk] = [new Helper('bare-transfers'), new Helper('bare-transfers')]
  try {
    await panel.startAgent()
    const templateId = await panel.makeTemplate({
      name: 'Files',
      startup: 'echo ready; exec sleep 1000000',
      startupDetection: { done: [{ kind: 'contains', value: 'ready' }], stripAnsi: true },
    })
    const serverId = await panel.makeServer(
      { name: 'files', templateId, primaryPort: await quietPort() },
      { allocatedDiskMb: 4 * SIZE_MIB },
    )
    await panel.running(serverId)
    const folder = join(panel.home, 'agent', 'servers', serverId)
    const file = join(panel.home, 'bare.bin')
    for (const path of [join(folder, 'big.bin'), file]) await fill(path)
    const bare: Way = await between.ask<{ url: string }>({ role: 'between' } satisfies BareTransfersOptions)
    const { url: diskUrl } = await disk.ask<{ url: string }>({
      role: 'disk',
      peer: bare.url,
      file,
    } satisfies BareTransfersOptions)
    await sent({ url: `${bare.url}/disk` }, 'POST', diskUrl)
    const content = (path: string): Way => ({
      url: `${panel.url}/api/servers/${serverId}/files/content?path=${path}`,
      token: panel.token,
    })
    const down = await compare(
      { panel: () => download(content('big.bin')), bare: () => download({ url: `${bare.url}/file` }) },
      progress,
    )
    const up = await compare(
      { panel: () => upload(content('new.bin')), bare: () => upload({ url: `${bare.url}/file` }) },
      progress,
    )
    return { ...named('download', down), ...named('upload', up), ...(await listed(panel, serverId, folder)) }
  } finally {
    await between.end()
    await disk.end()
    await panel.leave()
  }
}

async function fill(path: string): Promise<void> {
  const file = await open(path, 'w', 0o644)
  for (let at = 0; at < SIZE_MIB; at++) await file.write(Buffer.alloc(MIB, at % 251))
  await file.close()
}

/** MiB/s of both, in turn. */
async function compare(
  ways: { readonly panel: () => Promise<void>; readonly bare: () => Promise<void> },
  progress: (text: string) => void,
): Promise<{ panel: number[]; bare: number[] }> {
  const speeds = { panel: [] as number[], bare: [] as number[] }
  await ways.panel()
  await ways.bare()
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of ['panel', 'bare'] as const) {
      const began = performance.now()
      await ways[name]()
      speeds[name].push((SIZE_MIB * 1000) / (performance.now() - began))
      progress(`${name}: ${speeds[name].at(-1)?.toFixed(0)} MiB/s`)
    }
  }
  return speeds
}

function named(name: string, { panel, bare }: { panel: number[]; bare: number[] }): Figures {
  return {
    [`${name}.ofBare`]: atLeast(median(panel) / median(bare), 0.7, "of bare Node's speed with the same hops"),
    [`${name}.speed`]: shown(median(panel), 'MiB/s'),
    [`${name}.bareSpeed`]: shown(median(bare), 'MiB/s'),
    [`${name}.spread`]: spread(panel),
  }
}

async function download(way: Way): Promise<void> {
  const answer = await begin(way, 'GET').then(({ answer }) => answer)
  let bytes = 0
  for await (const piece of answer) bytes += (piece as Buffer).length
  if (bytes !== SIZE_MIB * MIB) throw new Error(`${way.url}: ${answer.statusCode}, ${bytes} bytes`)
}

async function upload(way: Way): Promise<void> {
  const block = Buffer.alloc(MIB, 7)
  const sending = begin(way, 'PUT', SIZE_MIB * MIB, async (write) => {
    for (let at = 0; at < SIZE_MIB; at++) await write(block)
  })
  await ended((await sending).answer, way)
}

async function sent(way: Way, method: string, text: string): Promise<void> {
  const { answer } = await begin(way, method, Buffer.byteLength(text), (write) => write(Buffer.from(text)))
  await ended(answer, way)
}

async function ended(answer: IncomingMessage, { url }: Way): Promise<void> {
  let text = ''
  for await (const piece of answer.setEncoding('utf8')) text += String(piece)
  if (answer.statusCode !== 200) throw new Error(`${url}: ${answer.statusCode} ${text.slice(0, 300)}`)
}

async function begin(
  { url, token }: Way,
  method: string,
  length = 0,
  body: (write: (piece: Buffer) => Promise<void>) => Promise<void> = async () => {},
): Promise<{ answer: IncomingMessage }> {
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(length === 0 ? {} : { 'content-length': length, 'content-type': 'application/octet-stream' }),
  }
  const sending = request(url, { method, headers, agent: false })
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    sending.once('response', resolve)
    sending.on('error', reject)
  })
  await body(async (piece) => {
    if (!sending.write(piece)) await new Promise<void>((resolve) => sending.once('drain', () => resolve()))
  })
  sending.end()
  return { answer: await answer }
}

async function listed(panel: BenchPanel, serverId: string, folder: string): Promise<Figures> {
  await mkdir(join(folder, 'many'), { mode: 0o755 })
  for (let entry = 0; entry < ENTRIES; entry++) await writeFile(join(folder, 'many', `region.${entry}.mca`), 'x')
  const target = { url: panel.url, token: panel.token, path: `/api/servers/${serverId}/files?path=many` }
  const all = { ...target, path: `${target.path}&limit=${ENTRIES}` }
  await load(target, 1, 2000)
  const page = await load(target, 1, 6000)
  const whole = await load(all, 1, 6000)
  return {
    'list.p50': shown(page.p50, 'ms'),
    'list.p99': under(page.p99, 50, `ms for a page of a folder of ${ENTRIES} entries`),
    'listAll.p50': shown(whole.p50, `ms for all ${ENTRIES} in one answer`),
    'listAll.p99': shown(whole.p99, 'ms for the same'),
  }
}
