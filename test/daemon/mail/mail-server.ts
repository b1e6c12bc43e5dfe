import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

/** A certificate for `localhost` and 127.0.0.1 that signs itself. */
export interface Certificate {
  readonly folder: string
  readonly file: string
  readonly cert: string
  readonly key: string
  remove(): Promise<void>
}

/** Makes one that is valid for two days. */
export async function makeCertificate(): Promise<Certificate> {
  const folder = await mkdtemp(join(tmpdir(), 'panel-cert-'))
  const [file, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const what = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-days', '2']
  const how = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', ...what]
  execFileSync('openssl', [...how, '-keyout', keyFile, '-out', file], { stdio: 'ignore' })
  const [cert, key] = [await readFile(file, 'utf8'), await readFile(keyFile, 'utf8')]
  return { folder, file, cert, key, remove: () => rm(folder, { recursive: true }) }
}

/** A message as the server got it. */
export interface Received {
  readonly from: string
  readonly to: readonly string[]
  readonly text: string
  readonly secure: boolean
  readonly user: string | undefined
  /** Which connection it came over. */
  readonly session: string
}

/** A real SMTP server on the loopback. */
export interface MailServer {
  readonly port: number
  readonly received: readonly Received[]
  readonly connections: () => number
  close(): Promise<void>
}

/** Takes mail for everybody but `nobody@…`, from user `panel` with the password `let-me-in` where it asks for one. */
export async function startMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const received: Received[] = []
  const server = new SMTPServer({
    logger: false,
    authOptional: true,
    disableReverseLookup: true,
    // The panel keeps its connections.
    closeTimeout: 50,
    onAuth: ({ username, password }, _session, done) => {
      if (username === 'panel' && password === 'let-me-in') done(null, { user: username })
      else done(new Error('Invalid username or password'))
    },
    onRcptTo: ({ address }, _session, done) =>
      address.startsWith('nobody@')
        ? done(Object.assign(new Error('No such user here'), { responseCode: 550 }))
        : done(),
    onData: (stream, session, done) => {
      const pieces: Buffer[] = []
      stream.on('data', (piece: Buffer) => pieces.push(piece))
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope
        received.push({
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          text: Buffer.concat(pieces).toString('utf8'),
          secure: session.secure,
          user: typeof session.user === 'string' ? session.user : undefined,
          session: session.id,
        })
        done()
      })
    },
    ...options,
  })
  // Clients that give up in the middle of a handshake are part of the tests.
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  const { port } = server.server.address() as AddressInfo // it listens on TCP
  return {
    port,
    received,
    connections: () => server.connections.size,
    close: () => new Promise((resolve) => server.close(resolve)),
  }
}
