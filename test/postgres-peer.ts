import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'

/** Something that talks like PostgreSQL, lets everybody in, agrees to every statement and keeps nothing. */
export interface PostgresPeer {
  readonly port: number
  /** The statements so far. */
  readonly asked: string[]
}

const SSL_REQUEST = 80_877_103
const TEXT = 25
const BOOL = 16

/** For tests that look at the panel's side alone. It does not keep the process from ending. */
export async function startPostgresPeer({ version = '16.2' }: { version?: string } = {}): Promise<PostgresPeer> {
  const asked: string[] = []
  const server = createServer((socket) => {
    socket.unref()
    socket.on('error', () => undefined) // a client that goes without a goodbye
    serve(socket, { asked, version })
  })
  server.listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a TCP listener has one
  return { port, asked }
}

function serve(socket: Socket, { asked, version }: { asked: string[]; version: string }): void {
  let waiting: Buffer = Buffer.alloc(0)
  let begun = false
  socket.on('data', (data: Buffer) => {
    waiting = Buffer.concat([waiting, data])
    for (;;) {
      const typed = begun ? 1 : 0
      if (waiting.length < typed + 4) return
      const length = waiting.readInt32BE(typed)
      if (waiting.length < typed + length) return
      const type = begun ? String.fromCharCode(waiting[0] ?? 0) : ''
      const body = waiting.subarray(typed + 4, typed + length)
      waiting = waiting.subarray(typed + length)
      if (type === 'X') return socket.end()
      if (!begun && body.readInt32BE(0) === SSL_REQUEST) {
        socket.write('N')
        continue
      }
      if (!begun) {
        begun = true
        socket.write(Buffer.concat([message('R', int32(0)), ready()]))
      } else if (type === 'Q') {
        const sql = body.toString('utf8', 0, body.length - 1)
        asked.push(sql)
        socket.write(Buffer.concat([...answer(sql, version), ready()]))
      }
    }
  })
}

function answer(sql: string, version: string): Buffer[] {
  if (sql === 'SHOW server_version') return row('server_version', TEXT, version)
  if (sql.startsWith('SELECT rolsuper')) return row('rolsuper', BOOL, 't')
  return [message('C', text('DONE'))]
}

function row(name: string, type: number, value: string): Buffer[] {
  const description = [int16(1), text(name), int32(0), int16(0), int32(type), int16(-1), int32(-1), int16(0)]
  const bytes = Buffer.from(value)
  return [
    message('T', ...description),
    message('D', int16(1), int32(bytes.length), bytes),
    message('C', text('SELECT 1')),
  ]
}

function ready(): Buffer {
  return message('Z', Buffer.from('I'))
}

function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body])
}

function text(value: string): Buffer {
  return Buffer.from(`${value}\0`)
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}
