import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { SftpStage } from './sftp-stage.ts'

/** Connections of one address that may wait to come in. */
const WAITING = 20

/** A network of this machine alone; false where the test may not add addresses to it. */
function changeAddresses(change: 'add' | 'del', addresses: readonly string[]): boolean {
  const lines = addresses.map((address) => `addr ${change} ${address}/128 dev lo${change === 'add' ? ' nodad' : ''}\n`)
  try {
    execFileSync('ip', ['-6', '-batch', '-'], { input: lines.join(''), stdio: ['pipe', 'ignore', 'ignore'] })
    return true
  } catch {
    return false
  }
}

it('connections from one IPv6 network wait as those of one address', { timeout: 60_000 }, async ({ skip }) => {
  const network = `fd${randomBytes(1).toString('hex')}:${randomBytes(2).toString('hex')}:1`
  const ours = Array.from({ length: WAITING + 5 }, (_, i) => `${network}:1::${i + 1}`)
  const addresses = [...ours, `${network}:2::1`]
  if (!changeAddresses('add', addresses)) return skip('needs root and IPv6, to add addresses')
  const stage = await SftpStage.enter({ sftpHost: '::' })
  const sockets: Socket[] = []
  /** Whether a connection from there is taken: the server speaks first. */
  const isTaken = async (localAddress: string): Promise<boolean> => {
    const socket = createConnection({ port: stage.port, host: '::1', localAddress })
    socket.on('error', () => {}) // it may be broken off
    sockets.push(socket)
    return await Promise.race([once(socket, 'data').then(() => true), once(socket, 'close').then(() => false)])
  }
  try {
    const taken: boolean[] = []
    for (const address of ours) taken.push(await isTaken(address))
    expect(taken).toEqual(ours.map((_, i) => i < WAITING))
    expect(await isTaken(`${network}:2::1`)).toBe(true)
  } finally {
    for (const socket of sockets) socket.destroy()
    await stage.close()
    changeAddresses('del', addresses)
  }
})
