import { createServer, type Server, type Socket } from 'node:net'
import { basename, dirname } from 'node:path'
import { PrivateFolder } from '../../shared/platform/private-folder.ts'
import type { Ask, Say } from './holder-files.ts'
import { removeFile } from './own-files.ts'

const MAX_ASK_BYTES = 256 * 1024
/** An agent that does not read gets no more reports until it does; it finds the lines in the log. */
const MAX_UNREAD_BYTES = 256 * 1024
const PUSH_MS = 10

/** What the server needs of the holder. */
export interface ControlTalk {
  /** The first thing said on a connection. */
  hello(): readonly Say[]
  /** Answers one question. */
  answer(ask: Ask): Promise<Say>
}

/** The holder's unix socket: JSON lines. Only the agent's user can enter the folder that it lies in. */
export class ControlServer {
  private readonly server: Server
  private readonly talk: ControlTalk
  private readonly clients = new Set<Socket>()
  private last = 0
  private timer: NodeJS.Timeout | undefined

  private constructor(talk: ControlTalk) {
    this.talk = talk
    this.server = createServer((socket) => this.welcome(socket))
  }

  /** Listens; a socket that a dead holder left is removed (the caller has the lock, so there is no living one). */
  static async listen(path: string, talk: ControlTalk): Promise<ControlServer> {
    const folder = PrivateFolder.make(dirname(path))
    const name = basename(path)
    removeFile(folder.inside(name))
    const control = new ControlServer(talk)
    // Node removes the socket, by a path that may lead through the folder's handle.
    control.server.once('close', () => folder.close())
    await new Promise<void>((resolve, reject) => {
      control.server.once('error', reject)
      control.server.listen(folder.socketPath(name), resolve)
    })
    return control
  }

  /** Sends all agents the number of the last line: the first one after a quiet time at once, then every 10 ms. */
  announce(last: number): void {
    if (last === this.last) return
    this.last = last
    if (this.timer !== undefined || this.clients.size === 0) return
    this.timer = setTimeout(() => {
      this.timer = undefined
      if (this.last !== last) {
        const newer = this.last
        this.last = last
        this.announce(newer)
      }
    }, PUSH_MS)
    for (const socket of this.clients) if (socket.writableLength < MAX_UNREAD_BYTES) send(socket, { last })
  }

  /** Also to an agent that does not read: what is said here is said once. */
  sayToAll(say: Say): void {
    for (const socket of this.clients) send(socket, say)
  }

  close(): void {
    clearTimeout(this.timer)
    this.server.close()
    for (const socket of this.clients) socket.end()
  }

  private welcome(socket: Socket): void {
    this.clients.add(socket)
    socket.once('close', () => this.clients.delete(socket))
    socket.on('error', () => socket.destroy()) // the agent went away; nothing here depends on it
    for (const say of this.talk.hello()) send(socket, say)
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      text += chunk
      const lines = text.split('\n')
      text = lines.pop() ?? ''
      if (text.length > MAX_ASK_BYTES) socket.destroy()
      for (const line of lines) void this.serve(socket, line)
    })
  }

  private async serve(socket: Socket, line: string): Promise<void> {
    let ask: Ask
    try {
      ask = JSON.parse(line) as Ask // only the agent of this program can reach the socket
    } catch {
      socket.destroy() // not our protocol: the sender is cut off
      return
    }
    try {
      send(socket, await this.talk.answer(ask))
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      send(socket, { id: ask.id, ok: false, code: 'INTERNAL', message })
    }
  }
}

function send(socket: Socket, say: Say): void {
  if (!socket.destroyed && socket.writable) socket.write(`${JSON.stringify(say)}\n`)
}
