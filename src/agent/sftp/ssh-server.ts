import { setMaxListeners } from 'node:events'
import { createServer, type Server as NetServer, type Socket } from 'node:net'
import type { AuthContext, Connection, PublicKeyAuthContext, Server, Session, utils as SshUtils } from 'ssh2'
import type { Clock } from '../../shared/kernel/time.ts'
import { countedAddress } from '../../shared/platform/counted-address.ts'
import { SFTP_LIMITS, type SftpReport, type SftpState } from '../../shared/protocol/sftp.ts'
import { type AgentLog, errorText } from '../logger.ts'
import type { ServerTable } from '../server/commands.ts'
import { type SshChannel, serveChannel } from './channel.ts'
import { SftpFiles } from './files.ts'
import { hostKeyOf } from './host-key.ts'
import { type Opened, type PanelClient, Refusal } from './panel-client.ts'
import { ServerRoom } from './server-room.ts'
import { SftpSession } from './session.ts'
import { serveShell } from './shell.ts'

/** Where SSH is taken. */
export interface SftpConfig {
  readonly enabled: boolean
  /** The address; absent: all of the machine. */
  readonly host?: string
  readonly port: number
}

/** What an SSH server is made of. */
export interface SshServerParts {
  readonly config: SftpConfig
  readonly dataDir: string
  readonly servers: ServerTable
  readonly panel: PanelClient
  readonly clock: Clock
  readonly log: AgentLog
  /** Aborts when the agent ends. */
  readonly ending: AbortSignal
}

const LIMITS = {
  /** Connections that have not come in yet: altogether, and of one address. */
  waiting: 100,
  waitingOfAddress: 20,
  graceMs: 30_000,
  attempts: 6,
  sessionsOfAddress: 50,
  sessionsOfServer: 50,
  channels: 5,
  /** New keys in such a time, each of which costs what a sign-in costs. */
  rekeys: 100,
  rekeysMs: 10_000,
  /** What has not gone out yet: beyond it nothing more is done for a connection. */
  unsentBytes: 1024 * 1024,
  /** Packets that wait for the end of an exchange of keys. */
  queued: 4096,
  /** So long the panel is asked after an attempt, also when nobody is in: its answer may have been lost, and its row is kept for a minute. */
  askedAfterMs: 120_000,
  idleMs: 15 * 60_000,
  idleLookMs: 30_000,
} as const

/** None that is known to be weak; what the machine does in hardware comes first. */
const ALGORITHMS = {
  kex: [
    'curve25519-sha256',
    'curve25519-sha256@libssh.org',
    'ecdh-sha2-nistp256',
    'ecdh-sha2-nistp384',
    'ecdh-sha2-nistp521',
    'diffie-hellman-group16-sha512',
    'diffie-hellman-group18-sha512',
  ],
  serverHostKey: ['ssh-ed25519'],
  cipher: ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'aes128-ctr', 'aes256-ctr'],
  hmac: ['hmac-sha2-256-etm@openssh.com', 'hmac-sha2-512-etm@openssh.com', 'hmac-sha2-256', 'hmac-sha2-512'],
  compress: ['none'],
} as const

interface SshModule {
  readonly Server: typeof Server
  readonly utils: typeof SshUtils
}

/** The SSH server of a node: files by SFTP and consoles, for those whom the panel lets in. */
export class SshServer {
  readonly #parts: SshServerParts
  readonly #room: ServerRoom
  readonly #sessions = new Map<string, SftpSession>()
  readonly #sockets = new Map<string, Waiting>()
  readonly #closing = new Set<Promise<void>>()
  #attemptedMs: number
  #net: NetServer | undefined
  #library: Promise<Server> | undefined
  #report: SftpReport = { enabled: false, port: 0, fingerprint: '', problem: null }

  constructor(parts: SshServerParts) {
    this.#parts = parts
    this.#room = new ServerRoom(parts.clock)
    // An agent before this one may have let somebody in just now.
    this.#attemptedMs = parts.clock.monotonicMs()
  }

  /** Where it listens, or why it does not, as the panel is shown. */
  get report(): SftpReport {
    return this.#report
  }

  /** Listens. A port that is taken, or a key that cannot be read, is a problem of the report and ends nothing. */
  async start(): Promise<void> {
    const { config, dataDir, log } = this.#parts
    const { port, host } = config
    this.#report = { enabled: config.enabled, port, fingerprint: '', problem: null }
    if (!config.enabled) {
      this.#report = { ...this.#report, problem: 'SFTP is switched off on this node (sftp.enabled)' }
      return
    }
    try {
      const { privateKey, fingerprint } = await hostKeyOf(dataDir)
      const net = createServer((socket) => this.#admit(privateKey, socket))
      await new Promise<void>((resolve, reject) => {
        net.once('error', reject)
        net.listen({ port, ...(host === undefined ? {} : { host }) }, () => resolve())
      })
      net.on('error', (error) => log.warn({ err: errorText(error) }, 'SFTP server: a connection could not be taken'))
      this.#net = net
      const address = net.address()
      const taken = typeof address === 'object' && address !== null ? address.port : port
      this.#report = { enabled: true, port: taken, fingerprint, problem: null }
      log.info({ host: host ?? '*', port: taken, fingerprint }, 'SFTP server listens')
      void this.#lookAround()
    } catch (error) {
      const isTaken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
      const problem = isTaken
        ? `Port ${port} is taken by another program: SFTP is off on this node until it is free or sftp.port is another one`
        : `SFTP cannot be offered: ${errorText(error)}`
      this.#report = { ...this.#report, problem: problem.slice(0, 300) }
      log.warn({ host: host ?? '*', port, err: errorText(error) }, problem)
    }
  }

  /** What the panel says of sessions now. */
  update(states: readonly SftpState[]): void {
    for (const { sessionId, grant, reason } of states) {
      const session = this.#sessions.get(sessionId)
      if (grant === null) session?.end(reason ?? 'The panel has ended the session')
      else session?.granted(grant)
    }
  }

  /** Asks the panel what the sessions may do; those that it does not know end. */
  async check(): Promise<void> {
    const { panel, log } = this.#parts
    const ids = [...this.#sessions.keys()]
    try {
      this.update(await panel.check(ids))
    } catch (error) {
      log.info({ err: errorText(error) }, 'rights of SFTP sessions were not answered')
    }
  }

  /** Ends all sessions and resolves when they are reported, or cannot be. */
  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) =>
      this.#net === undefined ? resolve() : this.#net.close(() => resolve()),
    )
    for (const session of this.#sessions.values()) session.end('The agent of the node is stopped')
    for (const { socket } of this.#sockets.values()) socket.destroy()
    await Promise.all([closed, ...this.#closing])
  }

  /** Looks at rights every few seconds beside what the panel reports by itself. */
  async #lookAround(): Promise<void> {
    const { clock, ending } = this.#parts
    while (!ending.aborted) {
      await clock.sleep(SFTP_LIMITS.checkMs, ending)
      const isAsked = this.#sessions.size > 0 || clock.monotonicMs() - this.#attemptedMs < LIMITS.askedAfterMs
      if (!ending.aborted && isAsked) await this.check()
    }
  }

  /** Takes a connection, or lets it go at once where too many wait; who does not come in within 30 s is let go. */
  #admit(privateKey: string, socket: Socket): void {
    const { clock, ending, log } = this.#parts
    const address = socket.remoteAddress ?? ''
    const counted = countedAddress(address)
    const ofAddress = [...this.#sockets.values()].filter((one) => one.counted === counted)
    const isTooMany =
      this.#sockets.size >= LIMITS.waiting + SFTP_LIMITS.sessions ||
      ofAddress.filter((one) => !one.isIn).length >= LIMITS.waitingOfAddress ||
      ofAddress.length >= LIMITS.sessionsOfAddress ||
      [...this.#sockets.values()].filter((one) => !one.isIn).length >= LIMITS.waiting
    if (isTooMany || ending.aborted) return void socket.destroy()
    const key = `${address} ${socket.remotePort}`
    const waiting: Waiting = { socket, address, counted, isIn: false, heardMs: clock.monotonicMs() }
    this.#sockets.set(key, waiting)
    const gone = new AbortController()
    socket.once('close', () => {
      gone.abort()
      this.#sockets.delete(key)
    })
    socket.on('error', () => {}) // the end of the connection says it
    void clock.sleep(LIMITS.graceMs, gone.signal).then(() => {
      if (!waiting.isIn && !gone.signal.aborted) socket.destroy()
    })
    socket.setNoDelay(true)
    this.#library ??= this.#load(privateKey)
    this.#library.then(
      (server) => socket.destroyed || server.injectSocket(socket),
      (error: unknown) => {
        this.#library = undefined // what was missing, such as a file descriptor, may be there for the next
        log.error({ err: errorText(error) }, 'SFTP server: what speaks SSH cannot be loaded')
        socket.destroy()
      },
    )
  }

  /** What speaks SSH, loaded for the first who comes: it takes 14 MB and 90 ms, and most nodes are seldom asked. */
  async #load(privateKey: string): Promise<Server> {
    const { default: ssh } = await import('ssh2')
    return new ssh.Server(
      {
        hostKeys: [privateKey],
        ident: 'panel',
        algorithms: ALGORITHMS as never, // names that the types list as well, one by one
        keepaliveInterval: 15_000,
        keepaliveCountMax: 4,
      },
      (client, { ip, port, header }) => this.#connected(ssh, client, { key: `${ip} ${port}`, client: header.identRaw }),
    )
  }

  #connected(ssh: SshModule, client: Connection, about: { readonly key: string; readonly client: string }): void {
    const { log } = this.#parts
    const waiting = this.#sockets.get(about.key)
    if (waiting === undefined) return void client.end()
    let attempts = 0
    let isAsking = false
    let entered: Entered | undefined
    client.on('error', () => {}) // its connection ends with it; what strangers send is not worth a line each
    client.on('authentication', (context) => {
      if (context.method === 'none') return context.reject(['publickey', 'password'])
      // Clients wait for the answer to one attempt before they make the next.
      if (isAsking || ++attempts > LIMITS.attempts) return void client.end()
      isAsking = true
      this.#authenticate(ssh, context, { address: waiting.address, client: about.client }).then(
        (opened) => {
          isAsking = false
          if (opened === 'known') return context.accept()
          if (opened === undefined || waiting.socket.destroyed) {
            if (opened?.session) this.#begin(opened.session)?.end('The connection has ended')
            return context.reject(['publickey', 'password'])
          }
          entered = this.#enter(opened)
          const { session } = entered
          waiting.isIn = true
          waiting.socket.once('close', () => session?.end('The connection has ended'))
          context.accept()
        },
        (error: unknown) => {
          isAsking = false
          // Nobody learns who is locked out: it would help whoever guesses.
          log.info({ address: waiting.address, err: errorText(error) }, 'SSH sign-in refused')
          context.reject(['publickey', 'password'])
          if (error instanceof Refusal) client.end()
        },
      )
    })
    const { socket } = waiting
    // Answers that are no part of a channel wait for nothing.
    socket.on('data', () => {
      if (socket.writableLength > LIMITS.unsentBytes * 8 || queueOf(client) > LIMITS.queued) socket.destroy()
    })
    client.on(
      'rekey',
      this.#rekeyLimit(() => socket.destroy()),
    )
    client.on('ready', () => {
      if (entered === undefined) return void client.end()
      this.#serve(client, waiting, entered)
    })
  }

  #rekeyLimit(tooMany: () => void): () => void {
    const { clock } = this.#parts
    let [sinceMs, count] = [clock.monotonicMs(), 0]
    return () => {
      const nowMs = clock.monotonicMs()
      if (nowMs - sinceMs > LIMITS.rekeysMs) [sinceMs, count] = [nowMs, 0]
      if (++count > LIMITS.rekeys) tooMany()
    }
  }

  /** Asks the panel; `known` says that a key would do whose signature has not been seen yet, `undefined` that it is not let in. */
  async #authenticate(
    ssh: SshModule,
    context: AuthContext,
    from: { readonly address: string; readonly client: string },
  ): Promise<Opened | 'known' | undefined> {
    const { panel, clock } = this.#parts
    this.#attemptedMs = clock.monotonicMs()
    const asked = {
      username: context.username.slice(0, 512),
      address: plainAddress(from.address),
      client: from.client.slice(0, 200),
    }
    if (context.method === 'password') {
      if (context.password.length > 1024) return undefined
      const opened = await panel.open({ ...asked, credential: { method: 'password', password: context.password } })
      return opened.isKnown ? opened : undefined
    }
    if (context.method !== 'publickey') return undefined
    const publicKey = verifiedKey(ssh, context)
    if (publicKey === undefined) return undefined
    const isSigned = context.signature !== undefined
    const opened = await panel.open({ ...asked, credential: { method: 'key', publicKey, isSigned } })
    if (!opened.isKnown) return undefined
    return isSigned ? opened : 'known'
  }

  /** Who has come in; where the panel or the limits refuse it, why. */
  #enter({ session: given, refusal }: Opened): Entered {
    if (given === null) return { session: undefined, refusal: refusal ?? 'The panel does not let you in' }
    const session = this.#begin(given)
    if (session === undefined) return { session, refusal: 'The node does not have this server yet; try again later' }
    const ofServer = [...this.#sessions.values()].filter((one) => one.server === session.server).length
    if (this.#sessions.size > SFTP_LIMITS.sessions || ofServer > LIMITS.sessionsOfServer) {
      session.end('Too many sessions are open; end some first (panel sftp sessions)')
    }
    return { session, refusal: undefined }
  }

  #begin({ sessionId, serverId, grant }: NonNullable<Opened['session']>): SftpSession | undefined {
    const { servers, panel, clock, log, ending } = this.#parts
    const server = servers.get(serverId)
    if (server === undefined || server.deleted) return undefined
    const session = new SftpSession({ sessionId, grant, server, panel, clock, log, ending })
    this.#sessions.set(sessionId, session)
    session.over.addEventListener('abort', () => {
      this.#sessions.delete(sessionId)
      const closing: Promise<void> = session.close().finally(() => this.#closing.delete(closing))
      this.#closing.add(closing)
    })
    setMaxListeners(0, server.gone.signal) // one of each session
    server.gone.signal.addEventListener('abort', () => session.end('The server is deleted'), { signal: session.over })
    return session
  }

  #serve(client: Connection, waiting: Waiting, { session, refusal }: Entered): void {
    const { clock } = this.#parts
    const heard = (): void => {
      waiting.heardMs = clock.monotonicMs()
    }
    const sent = (): Promise<void> => hasGoneOut(waiting.socket, client)
    let channels = 0
    const end = async (): Promise<void> => {
      // Time for the last words to go out.
      await clock.sleep(LAST_WORDS_MS)
      client.end()
      await clock.sleep(LAST_WORDS_MS)
      waiting.socket.destroy()
    }
    if (session === undefined) void clock.sleep(LIMITS.graceMs).then(end)
    else if (session.over.aborted) void end()
    else session.over.addEventListener('abort', () => void end())
    if (session !== undefined) void this.#endIdle(session, waiting)
    client.on('session', (accept, reject) => {
      if (channels >= LIMITS.channels) return reject()
      channels++
      const given = accept()
      given.on('close', () => channels--)
      const why = refusal ?? (session?.over.aborted === true ? session.reason : undefined)
      if (session === undefined || why !== undefined) refuseAll(given, why ?? '')
      else this.#serveSession(given, session, { heard, sent })
    })
  }

  #serveSession(
    given: Session,
    session: SftpSession,
    connection: { readonly heard: () => void; readonly sent: () => Promise<void> },
  ): void {
    const { log, panel, clock } = this.#parts
    let terminal = false
    given.on('pty', (accept) => {
      terminal = true
      accept?.()
    })
    given.on('window-change', (accept) => accept?.())
    given.on('signal', (accept) => accept?.())
    given.on('shell', (accept) => {
      const channel = accept() as SshChannel
      if (!session.may('consoleRead')) {
        return lastWords(channel, 'You have no right to the console of this server (console.read)')
      }
      void serveShell(channel, { session, panel, log, terminal, ...connection })
    })
    given.on('exec', (accept) => {
      lastWords(
        accept() as SshChannel,
        'Commands are not carried out here: use sftp, scp without -O, or ssh for the console',
      )
    })
    given.on('subsystem', (accept: () => unknown, reject: () => void, { name }: { name: string }) => {
      if (name !== 'sftp') return reject()
      const channel = accept() as SshChannel
      if (!session.may('read') && !session.may('write')) {
        return lastWords(channel, 'You have no right to the files of this server by SFTP (file.sftp, file.read)')
      }
      const files = new SftpFiles({ session, room: this.#room, nowMs: () => clock.nowMs() })
      void serveChannel(channel, { files, log, over: session.over, ...connection })
    })
  }

  async #endIdle(session: SftpSession, waiting: Waiting): Promise<void> {
    const { clock } = this.#parts
    while (!session.over.aborted) {
      await clock.sleep(LIMITS.idleLookMs, session.over)
      if (clock.monotonicMs() - waiting.heardMs > LIMITS.idleMs) session.end('Nothing has come for 15 minutes')
    }
  }
}

const LAST_WORDS_MS = 200

interface Waiting {
  readonly socket: Socket
  readonly address: string
  readonly counted: string
  isIn: boolean
  heardMs: number
}

interface Entered {
  readonly session: SftpSession | undefined
  readonly refusal: string | undefined
}

/**
 * Resolves when what was sent has gone out. The library sends as far as the window of a client reaches, which may be 4 GiB, whether or not
 * the client reads it; and keeps what is sent while keys are exchanged, which the client may never finish.
 */
async function hasGoneOut(socket: Socket, client: Connection): Promise<void> {
  while (!socket.destroyed && (socket.writableLength > LIMITS.unsentBytes || insideOf(client)._kexinit !== undefined)) {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        for (const event of ['drain', 'close']) socket.off(event, done)
        client.off('handshake', done)
        setImmediate(resolve) // the library has then finished as well
      }
      for (const event of ['drain', 'close']) socket.on(event, done)
      client.on('handshake', done)
    })
  }
}

function queueOf(client: Connection): number {
  return insideOf(client)._queue?.length ?? 0
}

/** What the library shows nobody: the exchange of keys that is under way, and what waits for its end. */
function insideOf(client: Connection) {
  return Reflect.get(client, '_protocol') as { _kexinit?: Buffer; _queue?: unknown[] }
}

/** Says why and ends: to whoever has shown who they are and does not come in all the same. */
function refuseAll(given: Session, why: string): void {
  given.on('pty', (accept) => accept?.())
  given.on('shell', (accept) => lastWords(accept() as SshChannel, why))
  given.on('exec', (accept) => lastWords(accept() as SshChannel, why))
  given.on('subsystem', (accept: () => unknown) => lastWords(accept() as SshChannel, why))
}

function lastWords(channel: SshChannel, text: string): void {
  channel.on('error', () => {}) // whoever has gone hears nothing
  channel.resume()
  const stderr = Reflect.get(channel, 'stderr') as NodeJS.WritableStream // of the server's side of a channel
  stderr.write(`${text}\r\n`)
  channel.exit(1)
  channel.end()
  channel.close()
}

/** The key of an attempt, after its signature was verified where there is one; none by SHA-1. */
function verifiedKey(ssh: SshModule, { key, signature, blob, hashAlgo }: PublicKeyAuthContext): string | undefined {
  const text = `${key.algo} ${key.data.toString('base64')}`
  if (text.length > 8192 || (key.algo === 'ssh-rsa' && hashAlgo === undefined)) return undefined
  const parsed = ssh.utils.parseKey(text)
  if (parsed instanceof Error) return undefined
  if (signature === undefined) return text
  if (blob === undefined) return undefined
  return parsed.verify(blob, signature, hashAlgo) === true ? text : undefined
}

/** An IPv4 address as such, also where the socket takes both. */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '')
}
