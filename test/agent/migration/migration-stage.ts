import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { RequestDefinition, ResultOf } from '../../../src/shared/protocol/define.ts'
import { type Forged, forgeTar } from '../../security/tar-forge.ts'
import { AgentStage, gameSpec } from '../agent-stage.ts'

export const SERVER = 'srv_moved'

/** A node with a server, and another panel's node that has archives at its URLs. */
export class MigrationStage {
  readonly agent: AgentStage
  /** A folder that servers may be moved from. */
  readonly root: string
  /** What the source answers by path; each request is counted. */
  readonly answers = new Map<string, (request: IncomingMessage, response: ServerResponse) => void>()
  readonly asked: string[] = []
  readonly #source: Server
  #steps = 0

  static async enter(): Promise<MigrationStage> {
    const agent = await AgentStage.enter()
    const root = await mkdtemp(join(tmpdir(), 'panel-moved-'))
    agent.pull = { allowedRanges: ['127.0.0.0/8'] }
    agent.migration = { roots: [root] }
    const source = createServer()
    source.listen(0, '127.0.0.1')
    await once(source, 'listening')
    await agent.startAgent()
    const spec = gameSpec(SERVER, 1)
    await agent.peer.order(SERVER, 1, { op: 'apply', spec: { ...spec, limits: { ...spec.limits, diskMb: 64 } } })
    const stage = new MigrationStage(agent, root, source)
    await mkdir(stage.folder, { recursive: true, mode: 0o700 })
    return stage
  }

  private constructor(agent: AgentStage, root: string, source: Server) {
    this.agent = agent
    this.root = root
    this.#source = source
    source.on('request', (request, response) => {
      const path = request.url ?? ''
      this.asked.push(path)
      const answer = this.answers.get(path)
      if (answer === undefined) response.writeHead(404).end()
      else answer(request, response)
    })
  }

  get servers(): string {
    return join(this.agent.dataDir, 'servers')
  }

  /** The server's own folder. */
  get folder(): string {
    return join(this.servers, SERVER)
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#source.address() as AddressInfo).port}` // it listens on TCP
  }

  step(): string {
    return `mgs_${++this.#steps}`
  }

  /** A pull of what the source has at a path, or of another source. */
  pull(stepId: string, change: Record<string, unknown> = {}, path = '/archive') {
    const url = { kind: 'url', url: `${this.origin}${path}`, origins: [this.origin], insecure: false }
    const most = { entries: 1000, bytes: 32 * 1024 * 1024, ms: 60_000 }
    return { stepId, serverId: SERVER, source: url, expectBytes: null, expectSha1: null, most, ...change }
  }

  /** Has the source answer an archive whole. */
  offer(content: Buffer, path = '/archive'): { expectBytes: number; expectSha1: string } {
    this.answers.set(path, (_request, response) => {
      response.writeHead(200, { 'content-length': content.length }).end(content)
    })
    return { expectBytes: content.length, expectSha1: sha1(content) }
  }

  /** Asks and expects an answer. */
  async ask<D extends RequestDefinition>(definition: D, input: Record<string, unknown>): Promise<ResultOf<D>> {
    // What does not fit is refused by the agent.
    const reply = await this.agent.peer.request({ op: definition.op, ...input } as never)
    if (reply.error !== null) throw new Error(`${reply.error.code}: ${reply.error.message}`)
    return definition.result.parse(reply.result) as ResultOf<D>
  }

  /** The refusal. */
  async refused(definition: RequestDefinition, input: Record<string, unknown>) {
    const reply = await this.agent.peer.request({ op: definition.op, ...input } as never) // as above
    return reply.error
  }

  async leave(): Promise<void> {
    await this.agent.leave([SERVER])
    this.#source.close()
    this.#source.closeAllConnections()
    await rm(this.root, { recursive: true, force: true })
  }
}

/** An archive as the node of another panel makes one. */
export function archiveOf(entries: readonly Forged[]): Buffer {
  return gzipSync(forgeTar(entries))
}

export function sha1(content: Buffer): string {
  return createHash('sha1').update(content).digest('hex')
}

export function freshTicket(): string {
  return randomBytes(32).toString('base64url')
}
