import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import { skippedUnless } from '../../skips.ts'
import { AgentStage, gameSpec } from '../agent-stage.ts'
import { btrfsImage, canUseBtrfs, type DiskImage } from './disk-image.ts'

const runs = canUseBtrfs()
const NO_BTRFS = skippedUnless(runs, 'root, loop devices and btrfs-progs')
const MIB = 1024 * 1024

let image: DiskImage
let stage: AgentStage
const used = new Set<string>()

/** Writes `$1` MiB when it is told to, and says what became of it. */
const WRITER = `
echo ready
while read -r line; do
  case "$line" in
    stop) exit 0 ;;
    *) dd if=/dev/zero of=grown bs=1M count=$line 2> said; echo "ended $? $(tail -n 1 said)" ;;
  esac
done
`

function writer(name: string, generation: number, diskMb: number, change: Partial<ServerSpec> = {}): ServerSpec {
  const id = `srv_${name}`
  used.add(id)
  const spec = gameSpec(id, generation, { startup: WRITER, ...change })
  return { ...spec, limits: { ...spec.limits, diskMb } }
}

async function startWriter(spec: ServerSpec): Promise<void> {
  const { serverId: id, generation } = spec
  expect(await stage.peer.order(id, generation, { op: 'start', spec })).toMatchObject({ ok: true })
  await stage.peer.report(id, 'running', (report) => report.power === 'running')
  await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
}

/** Has it write, and waits for what it says. */
async function write(id: string, mib: number): Promise<string> {
  const before = stage.peer.lines(id).length
  await stage.peer.request({ op: 'console.input', serverId: id, lines: [String(mib)] })
  return await stage.peer.until('the end of writing', () => {
    return stage.peer
      .lines(id)
      .slice(before)
      .find(([, , stream, text]) => stream === 'stdout' && text.startsWith('ended'))?.[3]
  })
}

function grown(id: string): number {
  return statSync(join(stage.dataDir, 'servers', id, 'grown')).size / MIB
}

function ids(): Record<string, { id: number }> {
  return JSON.parse(readFileSync(join(stage.dataDir, 'quotas.json'), 'utf8')).servers
}

function usageOf(id: string) {
  return stage.peer.of('stats').flatMap(({ servers }) => servers.filter(({ serverId }) => serverId === id))
}

describe.skipIf(!runs)(`a disk limit on btrfs with quotas${NO_BTRFS}`, () => {
  beforeAll(async () => {
    image = btrfsImage()
    stage = await AgentStage.enter(image.folder)
    await stage.startAgent()
  }, 60_000)

  afterAll(async () => {
    await stage?.leave([...used])
    image?.leave()
  }, 60_000)

  it('is said to be held by the kernel, by the node and for each server', async () => {
    const [hello] = stage.peer.of('hello')
    expect(hello?.runtimes[0]).toMatchObject({ disk: 'kernel', diskReason: null })
    const spec = writer('said', 1, 30)
    await startWriter(spec)
    await stage.peer.request({ op: 'stats.watch', serverIds: [spec.serverId] })
    await stage.peer.until('usage', () => usageOf(spec.serverId).some((usage) => usage.diskEnforced === 'kernel'))
  })

  it('stops a runaway writer at once at its limit, follows an edit while it runs, and frees its id with the server', async () => {
    const spec = writer('runaway', 1, 30)
    const id = spec.serverId
    await startWriter(spec)
    expect(await write(id, 60)).toContain('ended 1')
    expect(grown(id)).toBeLessThanOrEqual(30)
    expect(grown(id)).toBeGreaterThan(20)
    const larger = writer('runaway', 2, 80)
    expect(await stage.peer.order(id, 2, { op: 'apply', spec: larger })).toMatchObject({ ok: true })
    expect(await write(id, 60)).toContain('ended 0')
    expect(grown(id)).toBe(60)
    expect(ids()[id]?.id).toBeGreaterThan(0)
    await stage.peer.order(id, 3, { op: 'delete', keepFiles: false })
    expect(ids()[id]).toBeUndefined()
  })

  it('holds an installation as well', async () => {
    const script = 'dd if=/dev/zero of=big bs=1M count=60'
    const spec = writer('install', 1, 30, { install: { script, entrypoint: 'sh', timeoutMs: 60_000 } })
    const done = await stage.peer.order(spec.serverId, 1, { op: 'install', spec, wipe: false, thenStart: false })
    expect(done.ok).toBe(false)
    expect(statSync(join(stage.dataDir, 'servers', spec.serverId, 'big')).size / MIB).toBeLessThanOrEqual(30)
  })

  it('watches a server whose folder was made before, and says why', async () => {
    const spec = writer('plain', 1, 30)
    const folder = join(stage.dataDir, 'servers', spec.serverId)
    mkdirSync(folder)
    writeFileSync(join(folder, 'world'), 'old')
    await startWriter(spec)
    await stage.peer.request({ op: 'stats.watch', serverIds: [spec.serverId] })
    await stage.peer.until('usage', () => usageOf(spec.serverId).some((usage) => usage.diskEnforced === 'watch'))
    expect(stage.output).toContain('made as a plain one')
  })

  it('counts and removes a subvolume that a game makes in its folder', async () => {
    const spec = writer('nested', 1, 30, {
      startup:
        'btrfs subvolume create inner && dd if=/dev/zero of=inner/file bs=1M count=8 && echo ready && exec sleep 600',
      stop: { type: 'signal', value: 'SIGTERM', timeoutMs: 5000 },
    })
    const id = spec.serverId
    await startWriter(spec)
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    expect(await stage.peer.order(id, 3, { op: 'delete', keepFiles: false })).toMatchObject({ ok: true })
    expect(() => execFileSync('test', ['-e', join(stage.dataDir, 'servers', id)])).toThrow()
  })
})
