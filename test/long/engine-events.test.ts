// @module-tag long
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Server as NetServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ConsoleFrame, getLogs, type ResumeFrame, sendCommand } from '../../src/shared/api/console.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import type { NewTemplate } from '../../src/shared/api/template-fields.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { EngineStage, noEngine } from '../agent/docker/engine-stage.ts'
import { Registry } from '../agent/docker/registry.ts'
import { holderPid } from '../agent/runtime/rig.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { framesOf, type PanelEvent } from '../e2e/sse.ts'
import { isAlive, pause, until } from '../e2e/wait.ts'
import { skippedUnless } from '../skips.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const STORE_MB = 256
const ACCOUNT = { username: 'robot', password: 'secret' }
const LARGE_MB = 24
/** A registry over a line of so many bytes a second is one whose pull has a progress. */
const SLOW_BYTES = 2 * 1024 * 1024

/** Counts, at 12,000 to 20,000 lines a second while nobody slows it down, until the file `stop` is there. */
const COUNTER = `
echo ready
read -r go
i=0
while [ ! -e stop ]; do
  seq $((i+1)) $((i+200)); i=$((i+200))
  usleep 8000
done
echo over
while read -r line; do echo "got $line"; done
`

/** An engine whose store is a small disk of its own. */
class SmallEngine extends EngineStage {
  #isMounted = false

  override async startEngine(): Promise<void> {
    const data = join(this.folder, 'data')
    if (!this.#isMounted) {
      mkdirSync(data, { recursive: true })
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${STORE_MB}m`, 'tmpfs', data])
      this.#isMounted = true
    }
    await super.startEngine()
  }

  /** Leaves no room on its disk. */
  fill(): void {
    // It ends when there is no room left.
    spawnSync('dd', ['if=/dev/zero', `of=${join(this.folder, 'data', 'filler')}`, 'bs=64k'])
  }

  free(): void {
    rmSync(join(this.folder, 'data', 'filler'), { force: true })
  }
}

function missedOf(data: string): number {
  const { missed }: ResumeFrame = JSON.parse(data)
  return missed
}

/** Connections to a port, slowed down. */
class SlowLine {
  readonly #proxy: NetServer
  readonly #open = new Set<Socket>()
  readonly port: number

  private constructor(proxy: NetServer, open: Set<Socket>, port: number) {
    this.#proxy = proxy
    this.#open = open
    this.port = port
  }

  static async to(target: number, bytesPerSecond: number): Promise<SlowLine> {
    const open = new Set<Socket>()
    const proxy = createServer((client) => {
      const server = connect(target, '127.0.0.1')
      for (const socket of [client, server]) {
        open.add(socket)
        socket.on('error', () => undefined)
        socket.on('close', () => open.delete(socket))
      }
      client.pipe(server)
      client.on('close', () => server.destroy())
      server.on('close', () => client.end())
      server.on('data', (chunk: Buffer) => {
        client.write(chunk)
        server.pause()
        setTimeout(() => server.resume(), (chunk.length / bytesPerSecond) * 1000)
      })
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const address = proxy.address()
    return new SlowLine(proxy, open, typeof address === 'object' && address !== null ? address.port : 0)
  }

  async cut(): Promise<void> {
    for (const socket of this.#open) socket.destroy()
    if (this.#proxy.listening) await new Promise((resolve) => this.#proxy.close(resolve))
  }
}

let engine: SmallEngine
let registry: Registry
let line: SlowLine
let panel: SplitPanel

describe.skipIf(missing !== undefined)(`a server in a container, by the event stream${WHY_NOT}`, () => {
  beforeAll(async () => {
    engine = new SmallEngine()
    await EngineStage.begin('none', engine)
    registry = await Registry.start(engine.folder)
    line = await SlowLine.to(Number(registry.host.split(':')[1]), SLOW_BYTES)
    panel = await SplitPanel.enter()
    await panel.killAgent('SIGTERM')
    const folder = join(panel.home, '.config', 'panel')
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(panel.home, 'password'), `${ACCOUNT.password}\n`, { mode: 0o600 })
    const account = { username: ACCOUNT.username, passwordFile: join(panel.home, 'password') }
    const docker = { socket: engine.socket, network: 'host', registries: { [`127.0.0.1:${line.port}`]: account } }
    // JSON is YAML as well.
    writeFileSync(join(folder, 'agent.yaml'), JSON.stringify({ docker }))
    await panel.startAgent()
    await until('the node to have an engine', async () => {
      const { stdout } = await panel.run(['nodes', 'view', 'box', '-o', 'json'])
      const { runtimes } = JSON.parse(stdout) as { runtimes: { name: string; ok: boolean }[] }
      return runtimes.some(({ name, ok }) => name === 'docker' && ok)
    })
  })

  afterAll(async () => {
    engine?.free()
    await panel?.leave()
    await line?.cut()
    await registry?.stop()
    await engine?.end([])
  })

  it('is installed, started, stopped and started again, each said once and in order', async () => {
    const server = await make('whole', { script: 'echo ready; read -r line' })
    await order(server, 'start', 'running')
    await order(server, 'stop', 'stopped')
    await order(server, 'start', 'running')
    await order(server, 'kill', 'stopped')
    expect(await statesOf(server)).toEqual([
      ...['installing', 'stopped'],
      ...['starting', 'running', 'stopping', 'stopped'],
      ...['starting', 'running', 'stopped'],
    ])
    expect((await updatesOf(server)).at(-1)).toMatchObject({ exitCause: 'killed', crashCount: 0, reason: null })
  })

  it('brings 10,000 lines a second to who follows it, each once, also while holder, agent and engine end', async () => {
    const server = await make('lines', { script: COUNTER, start: true })
    const pid = (await panel.server(server.id)).pid ?? 0
    const before = (await panel.events(server.id)).length
    const followed = await follow(server)
    await panel.client.call(sendCommand, { params: { serverId: server.id }, body: { command: 'go' } })
    await until('50,000 lines', async () => followed.count() > 50_000, 60_000)
    const perSecond = followed.perSecond()
    process.stderr.write(`${JSON.stringify({ linesPerSecond: Math.round(perSecond) })}\n`)
    for (const end of [
      // The attachment ends with the holder, the agent's connection with the agent, the engine's log with the engine.
      async () => process.kill(await holderPid(stateOf(server)), 'SIGKILL'),
      async () => {
        await panel.killAgent('SIGKILL')
        await panel.startAgent()
      },
      async () => {
        await engine.endEngine('SIGTERM')
        await engine.startEngine()
      },
      async () => {
        await engine.endEngine('SIGKILL')
        await engine.startEngine()
      },
    ]) {
      await end()
      const count = followed.count()
      await until('more lines', async () => followed.count() > count + 20_000, 60_000)
    }
    expect(await isAlive(pid)).toBe(true)
    writeFileSync(join(panel.filesOf(server.id), 'stop'), '')
    await until('the last line', async () => followed.last() === 'over', 60_000)
    await panel.client.call(sendCommand, { params: { serverId: server.id }, body: { command: 'still there' } })
    await until('an answer', async () => followed.last() === 'got still there')
    followed.end()
    const lines = followed.lines()
    expect(lines.findIndex((text, i) => text !== String(i + 1))).toBe(-1)
    expect(followed.missed()).toBe(0)
    expect(perSecond).toBeGreaterThan(10_000)
    // Nothing of all that was an end of the game.
    const since = (await panel.events(server.id)).slice(before)
    const states = since.flatMap(({ type, data }) => (type === 'server_state_update' ? [data['state']] : []))
    expect(states.filter((state) => !['running', 'unknown', 'offline'].includes(String(state)))).toEqual([])
    expect(await panel.server(server.id)).toMatchObject({ status: 'running', pid, crashCount: 0 })
    await order(server, 'kill', 'stopped')
  })

  it('that runs out of memory says so, by the engine and, when that was away, by what the kernel has counted', async () => {
    const hungry = await make('hungry', { script: 'echo ready; dd if=/dev/zero of=/dev/null bs=200M count=1; exit 4' })
    await panel.order(hungry.id, 'start')
    expect(await updateWhen(hungry, ({ state }) => state === 'crashed')).toMatchObject({
      exitCause: 'out-of-memory',
      exitReason: expect.stringMatching(/^It needed more than its 64 MiB of memory/),
    })
    const script =
      'echo ready; read -r go; dd if=/dev/zero of=/dev/null bs=200M count=1; echo survived; read -r end; exit 4'
    const away = await make('away', { script, start: true })
    const socket = await follow(away)
    await panel.client.call(sendCommand, { params: { serverId: away.id }, body: { command: 'go' } })
    await until('its survival', async () => socket.last() === 'survived')
    // An engine that comes back knows nothing of what the kernel did before.
    await engine.endEngine('SIGKILL')
    await engine.startEngine()
    await until('its input', async () => {
      await panel.client.call(sendCommand, { params: { serverId: away.id }, body: { command: 'end' } })
      return true
    })
    expect(await updateWhen(away, ({ state }) => state === 'crashed')).toMatchObject({ exitCause: 'out-of-memory' })
    socket.end()
  })

  it('that is stopped while the engine is away ends, and is shown as stopped with its exit code once it is back', async () => {
    const script = 'trap "echo saved; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
    const server = await make('stopped', { script, start: true })
    const { pid } = await panel.server(server.id)
    await engine.endEngine('SIGTERM')
    await panel.order(server.id, 'stop')
    await until('its end', async () => !(await isAlive(pid ?? 0)))
    await panel.serverWhen(server.id, 'shown as stopping', ({ status }) => status === 'stopping')
    await engine.startEngine()
    const { exitCode, exitCause } = await updateWhen(server, ({ state }) => state === 'stopped', 1)
    expect({ exitCode, exitCause }).toEqual({ exitCode: 0, exitCause: 'stopped' })
  })

  it('whose container is removed by hand has crashed, and its policy starts it again', async () => {
    const server = await make('removed', { script: 'echo ready; read -r line', start: true, restart: 'on-failure' })
    const { pid } = await panel.server(server.id)
    await engine.removeContainersOf(server.id)
    await updateWhen(server, ({ state }) => state === 'crashed')
    await panel.serverWhen(server.id, 'running again', (now) => now.status === 'running' && now.pid !== pid)
    expect((await statesOf(server)).slice(-4)).toEqual(['running', 'crashed', 'starting', 'running'])
    expect(await texts(server)).toContain('The container was removed by somebody else')
    await order(server, 'kill', 'stopped')
  })

  it('is pulled with its progress in the console; with the registry away what is there is used, and what is not says why', async () => {
    const image = `127.0.0.1:${line.port}/team/large:1`
    await engine.importImage('game:1', LARGE_MB)
    // The registry is one, whatever the port that it is reached by; what is pushed does not take the slow way.
    const direct = image.replace(/:\d+\//, `:${registry.host.split(':')[1]}/`)
    await engine.push(direct, ACCOUNT)
    const server = await make('pulled', { script: 'echo ready; read -r line', image })
    await order(server, 'start', 'running', 60_000)
    const said = await texts(server)
    expect(said).toContain(`Pulling the image ${image}`)
    expect(said.join('\n')).toMatch(/Pulling the image \S+: \d+\.\d of \d+\.\d MiB/)
    expect(said).toContain(`The image ${image} is there`)
    await order(server, 'kill', 'stopped')
    await line.cut()
    await order(server, 'start', 'running')
    await order(server, 'kill', 'stopped')
    await engine.call('DELETE', `/images/${image}?force=1`)
    await panel.order(server.id, 'start')
    const { reason } = await updateWhen(server, ({ reason }) => reason !== null)
    expect(reason).toMatch(/^The image \S+ could not be pulled: .*connection refused/)
    expect((await statesOf(server)).at(-1)).toBe('stopped')
    expect(await panel.server(server.id)).toMatchObject({ status: 'stopped', reason })
  })

  it('does not start while the disk of the engine is full, says so, and starts when there is room; what runs goes on', async () => {
    const running = await make('running', { script: COUNTER, start: true })
    const server = await make('full', { script: 'echo ready; read -r line' })
    engine.fill()
    const followed = await follow(running)
    await panel.client.call(sendCommand, { params: { serverId: running.id }, body: { command: 'go' } })
    await panel.order(server.id, 'start')
    const { reason } = await updateWhen(server, ({ reason }) => reason !== null)
    expect(reason).toMatch(/the disk of the container engine is full/)
    expect(await panel.server(server.id)).toMatchObject({ status: 'stopped', reason })
    await until('lines', async () => followed.count() > 10_000)
    writeFileSync(join(panel.filesOf(running.id), 'stop'), '')
    await until('the last line', async () => followed.last() === 'over')
    expect(followed.lines().findIndex((text, i) => text !== String(i + 1))).toBe(-1)
    followed.end()
    engine.free()
    await order(server, 'start', 'running')
    await order(server, 'kill', 'stopped')
    await order(running, 'kill', 'stopped')
  })

  interface Wanted {
    readonly script: string
    readonly image?: string
    readonly start?: boolean
    readonly restart?: 'never' | 'on-failure'
  }

  /** A server in a container, of a template of its own. */
  async function make(name: string, { script, image, start = false, restart = 'never' }: Wanted): Promise<Server> {
    const body: Partial<NewTemplate> & Pick<NewTemplate, 'name' | 'startup'> = {
      name,
      runtimes: ['docker'],
      image: image ?? 'game:1',
      startup: 'exec sh ./game.sh',
      stopCommand: '',
      sendSignalTo: 'SIGTERM',
      stopTimeoutSeconds: 5,
      startupDetection: { done: [{ kind: 'contains', value: 'ready' }], stripAnsi: false },
      installEntrypoint: 'sh',
      installImage: 'game:1',
      installScript: `cat > "$MNT_SERVER/game.sh" <<'END'\n${script}\nEND\n`,
      allocatedMemoryMb: 64,
      allocatedCpuCores: 1,
    }
    const { id } = await panel.client.call(createTemplate, { body })
    return await panel.makeServer(name, id, { start, restartPolicy: restart })
  }

  async function order(server: Server, action: 'start' | 'stop' | 'kill', status: string, withinMs?: number) {
    await panel.order(server.id, action)
    await until(`${server.name} is ${status}`, async () => (await panel.server(server.id)).status === status, withinMs)
  }

  async function updatesOf({ id }: Server): Promise<PanelEvent['data'][]> {
    const events = await panel.events(id)
    return events.filter(({ type }) => type === 'server_state_update').map(({ data }) => data)
  }

  /** The states of its events, each change once. */
  async function statesOf(server: Server): Promise<string[]> {
    const states = (await updatesOf(server)).map(({ state }) => String(state))
    return states.filter((state, at) => state !== states[at - 1])
  }

  /** The first event that is so, behind the first `skipped` ones that are. */
  async function updateWhen(
    server: Server,
    isSo: (event: PanelEvent['data']) => boolean,
    skipped = 0,
  ): Promise<PanelEvent['data']> {
    return await until('the event', async () => (await updatesOf(server)).filter(isSo)[skipped], 30_000)
  }

  async function texts({ id }: Server): Promise<string[]> {
    const { logs } = await panel.client.call(getLogs, { params: { serverId: id }, query: { lines: 200 } })
    return logs.map(({ data }) => data)
  }

  function stateOf({ id }: Server) {
    return { serverId: id, files: '', state: join(panel.home, 'agent', 'state', id) }
  }

  /** Follows the console as a client does, over new connections where one ends. */
  async function follow({ id }: Server) {
    const over = new AbortController()
    const seen: { text: string; atMs: number }[] = []
    let lastText = ''
    let missed = 0
    let lastId: string | undefined
    let opened: () => void = () => undefined
    const isOpen = new Promise<void>((resolve) => {
      opened = resolve
    })
    const read = async (): Promise<void> => {
      const headers = {
        authorization: `Bearer ${panel.token}`,
        ...(lastId === undefined ? {} : { 'last-event-id': lastId }),
      }
      const response = await fetch(`${panel.url}/api/servers/${id}/console/stream?lines=0`, {
        headers,
        signal: over.signal,
      })
      if (!response.ok || response.body === null) throw new Error(`the console answered ${response.status}`)
      opened()
      const decoder = new TextDecoder()
      let text = ''
      for await (const chunk of response.body) {
        text += decoder.decode(chunk, { stream: true })
        const end = text.lastIndexOf('\n\n') + 2
        for (const frame of end < 2 ? [] : framesOf(text.slice(0, end))) {
          if (frame.event === 'resume_console') missed += missedOf(frame.data)
          if (frame.event !== 'console') continue
          lastId = frame.id
          const { line: said, timestamp, stream }: ConsoleFrame = JSON.parse(frame.data)
          if (stream !== 'stdout') continue
          lastText = said
          if (/^\d+$/.test(said)) seen.push({ text: said, atMs: Date.parse(timestamp) })
        }
        text = end < 2 ? text : text.slice(end)
      }
    }
    const reading = (async () => {
      while (!over.signal.aborted) {
        await read().catch(() => undefined) // the agent is away: it is tried again from the last line on
        await pause(50)
      }
    })()
    await isOpen
    return {
      count: () => seen.length,
      last: () => lastText,
      missed: () => missed,
      lines: () => seen.map(({ text }) => text),
      perSecond: () => ((seen.length - 1) * 1000) / Math.max(1, (seen.at(-1)?.atMs ?? 0) - (seen[0]?.atMs ?? 0)),
      end: () => {
        over.abort()
        void reading
      },
    }
  }
})
