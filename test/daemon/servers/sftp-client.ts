import ssh from 'ssh2'
import { PASSWORD, type SftpStage } from './sftp-stage.ts'

/** A console over SSH. */
export interface Shell {
  type(text: string): void
  /** Resolves when that has been printed since the last time. */
  until(text: string): Promise<void>
  /** The status that the server ends it with. */
  readonly ended: Promise<number>
}

/** A file that stays open. */
export interface OpenFile {
  read(): Promise<string>
  write(text: string): Promise<void>
}

/** A connection that stays open until the server ends it, or the test does. */
export interface OpenClient {
  readonly sftp: ssh.SFTPWrapper
  list(path: string): Promise<readonly string[]>
  open(path: string, flags: 'r' | 'r+'): Promise<OpenFile>
  shell(): Promise<Shell>
  /** Resolves when the server has closed the connection. */
  readonly closed: Promise<void>
  end(): void
}

interface By {
  readonly user?: string
  readonly password?: string
  readonly privateKey?: string
}

/** Connects; rejects when it is not let in. */
export async function openClient(stage: Pick<SftpStage, 'port' | 'user'>, by: By = {}): Promise<OpenClient> {
  const client = await connect(stage, by)
  const closed = new Promise<void>((resolve) => client.once('close', () => resolve()))
  const sftp = await new Promise<ssh.SFTPWrapper>((resolve, reject) =>
    client.sftp((error, made) => (error === undefined ? resolve(made) : reject(error))),
  )
  return {
    sftp,
    closed,
    list: (path) =>
      new Promise((resolve, reject) =>
        sftp.readdir(path, (error, list) =>
          error === undefined ? resolve(list.map(({ filename }) => filename)) : reject(error),
        ),
      ),
    open: (path, flags) => openFile(sftp, path, flags),
    shell: () => shellOf(client),
    end: () => client.end(),
  }
}

/** The connection alone. */
export function connect(stage: Pick<SftpStage, 'port' | 'user'>, by: By = {}): Promise<ssh.Client> {
  const { user = stage.user, privateKey } = by
  const how = privateKey === undefined ? { password: by.password ?? PASSWORD } : { privateKey }
  const client = new ssh.Client()
  return new Promise((resolve, reject) => {
    client.once('ready', () => resolve(client))
    client.on('error', reject)
    client.connect({ host: '127.0.0.1', port: stage.port, username: user, ...how })
  })
}

async function openFile(sftp: ssh.SFTPWrapper, path: string, flags: 'r' | 'r+'): Promise<OpenFile> {
  const handle = await new Promise<Buffer>((resolve, reject) =>
    sftp.open(path, flags, (error, opened) => (error === undefined ? resolve(opened) : reject(error))),
  )
  const room = Buffer.alloc(1000)
  return {
    read: () =>
      new Promise((resolve, reject) =>
        sftp.read(handle, room, 0, room.length, 0, (error, bytes) =>
          error === undefined ? resolve(room.toString('utf8', 0, bytes)) : reject(error),
        ),
      ),
    write: (text) =>
      new Promise((resolve, reject) =>
        sftp.write(handle, Buffer.from(text), 0, Buffer.byteLength(text), 0, (error) =>
          error == null ? resolve() : reject(error),
        ),
      ),
  }
}

function shellOf(client: ssh.Client): Promise<Shell> {
  return new Promise((resolve, reject) => {
    client.shell((error, channel) => {
      if (error !== undefined) return reject(error)
      let text = ''
      let look = (): void => {}
      channel.on('data', (piece: Buffer) => {
        text += String(piece)
        look()
      })
      const ended = new Promise<number>((done) => channel.once('exit', (status: number) => done(status)))
      resolve({
        type: (typed) => void channel.write(typed),
        until: (wanted) =>
          new Promise((done) => {
            look = () => {
              const at = text.indexOf(wanted)
              if (at < 0) return
              text = text.slice(at + wanted.length)
              look = () => {}
              done()
            }
            look()
          }),
        ended,
      })
    })
  })
}
