import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A way to a database server that can be cut in the middle of a conversation. */
export interface SqlCable {
  readonly port: number
  /** Cuts at the first statement that contains the text, `before` the server hears of it or once it has `answered`; and is cut from then on. */
  cutAt(text: string, when: 'before' | 'answered'): void
  mend(): void
  close(): Promise<void>
}

/** Carries bytes to a port of the loopback; statements must not be encrypted. */
export async function startSqlCable(target: number): Promise<SqlCable> {
  let trap: { text: string; when: 'before' | 'answered' } | undefined
  let cut = false
  const sockets = new Set<Socket>()
  const cutAll = (): void => {
    cut = true
    for (const socket of sockets) socket.resetAndDestroy()
  }
  const server = createServer((near) => {
    if (cut) {
      near.resetAndDestroy()
      return
    }
    const far = connect(target, '127.0.0.1')
    let sprung = false
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => undefined) // the other end hears of it by its own socket
      socket.on('close', () => {
        sockets.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.on('data', (data) => {
      if (trap !== undefined && data.includes(trap.text)) {
        if (trap.when === 'before') return cutAll()
        sprung = true
      }
      far.write(data)
    })
    far.on('data', (data) => (sprung ? cutAll() : near.write(data)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a TCP listener has one
  return {
    port,
    cutAt: (text, when) => {
      trap = { text, when }
    },
    mend: () => {
      trap = undefined
      cut = false
    },
    close: async () => {
      cutAll()
      server.close()
      await once(server, 'close')
    },
  }
}
