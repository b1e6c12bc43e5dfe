import { once } from 'node:events'
import { existsSync, readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { connect as connectTcp, type Socket } from 'node:net'
import { join } from 'node:path'
import ssh from 'ssh2'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connect, openClient } from '../daemon/servers/sftp-client.ts'
import { has, SftpStage } from '../daemon/servers/sftp-stage.ts'
import { skippedUnless } from '../skips.ts'
import { firstText, packet, SftpWire, text, uint32, uint64, WIRE } from './sftp-wire.ts'

const OPENSSH = has('sftp', 'sshpass')
const READ = 1
const MIB = 1024 * 1024
const LONG = { tags: ['long'] }

let stage: SftpStage

beforeAll(async () => {
  stage = await SftpStage.enter()
  writeFileSync(join(stage.folder, 'big'), '')
  truncateSync(join(stage.folder, 'big'), 64 * MIB)
})
afterAll(() => stage?.close())

/** Somebody who does as they should still gets in. */
async function others(): Promise<void> {
  const one = await openClient(stage)
  expect(await one.list('/')).toBeDefined()
  one.end()
  await one.closed
}

test('packets that cannot be end their channel and nothing else', async () => {
  const bad: readonly Buffer[] = [
    Buffer.from('ffffffff', 'hex'),
    Buffer.from('00000000', 'hex'),
    Buffer.concat([uint32(300_000), Buffer.alloc(300_000)]),
    packet(3, uint32(1), text('too early')),
    Buffer.from('GET / HTTP/1.1\r\nHost: panel\r\n\r\n'),
  ]
  const client = await connect(stage)
  for (const bytes of bad) {
    const wire = await SftpWire.open(client, { listens: false })
    wire.channel.resume()
    wire.channel.write(bytes)
    await wire.closed
  }
  client.end()
  await others()
})

test('fields whose lengths do not add up, and requests that nobody knows, are answered as such', async () => {
  const client = await connect(stage)
  const wire = await SftpWire.open(client)
  const OUT = Buffer.concat([uint32(0xffff_ffff), Buffer.from('x')])
  for (const type of [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 200]) {
    expect([type, (await wire.ask(type, OUT)).status]).toEqual([type, 5])
    expect([type, (await wire.ask(type)).status]).toEqual([type, 5])
  }
  for (const type of [0, 2, 21, 22, 99, 201, 255]) expect((await wire.ask(type, text('x'))).status).toBe(8)
  expect((await wire.ask(200, text('hardlink@openssh.com'), text('a'), text('b'))).status).toBe(8)
  const handles = [Buffer.alloc(0), uint32(77), Buffer.alloc(16, 1), Buffer.alloc(5000)]
  for (const handle of handles)
    expect((await wire.ask(5, text(handle), uint64(0n), uint32(1))).status).toBeGreaterThan(3)
  const many = Buffer.concat([uint32(0x8000_0000), uint32(0xffff_ffff)])
  expect((await wire.ask(9, text('/'), many)).status).toBe(5)
  client.end()
})

test('nobody has more than 256 files open, reads more than a packet, or reads where no file reaches', async () => {
  const client = await connect(stage)
  const wire = await SftpWire.open(client)
  const open = () => wire.ask(3, text('/big'), uint32(READ), uint32(0))
  const answers = await Promise.all(Array.from({ length: 1000 }, open))
  const handles = answers.filter(({ type }) => type === WIRE.handle).map(({ body }) => firstText(body))
  expect(handles).toHaveLength(256)
  expect(answers.filter(({ status }) => status === 4)).toHaveLength(744)
  const [first = Buffer.alloc(0)] = handles
  const read = (offset: bigint, length: number) => wire.ask(5, text(first), uint64(offset), uint32(length))
  const most = await read(0n, 0xffff_ffff)
  expect([most.type, firstText(most.body).length < 256 * 1024]).toEqual([WIRE.data, true])
  expect((await read(0xffff_ffff_ffff_ffffn, 1)).status).toBe(5)
  expect((await read(BigInt(Number.MAX_SAFE_INTEGER), 1)).status).toBe(1)
  for (const handle of handles) await wire.ask(4, text(handle))
  expect((await open()).type).toBe(WIRE.handle)
  client.end()
})

test('who asks for a lot and reads nothing, or sends byte by byte, holds little memory', async () => {
  const client = await connect(stage)
  const slow = await SftpWire.open(client, { listens: false })
  slow.channel.write(packet(1, uint32(3)))
  slow.channel.write(packet(3, uint32(1), text('/big'), uint32(READ), uint32(0)))
  globalThis.gc?.()
  const before = process.memoryUsage()
  for (let id = 2; id < 5_000; id++) {
    slow.channel.write(packet(5, uint32(id), text(uint32(1)), uint64(0n), uint32(250_000)))
  }
  const drip = await SftpWire.open(client)
  const large = packet(6, uint32(9), text(Buffer.alloc(200_000)))
  for (let index = 0; index < 5_000; index++) drip.channel.write(large.subarray(index, index + 1))
  await others()
  const now = process.memoryUsage()
  // The packets of the client itself are among it: this is one process.
  expect((now.external + now.heapUsed - before.external - before.heapUsed) / MIB).toBeLessThan(64)
  client.end()
  await others()
})

test(
  'who has a window of 4 GiB and reads nothing, or never ends an exchange of keys, holds little memory',
  LONG,
  async () => {
    const held = (): number => {
      const { external, heapUsed } = process.memoryUsage()
      return (external + heapUsed) / MIB
    }
    for (const way of ['does not read', 'exchanges keys'] as const) {
      const client = await connect(stage)
      client.on('error', () => {}) // it is cut off at the end
      const wire = await SftpWire.open(client, { listens: false })
      const socket = Reflect.get(client, '_sock') as Socket
      const protocol = Reflect.get(client, '_protocol') as Record<string, (...given: unknown[]) => void>
      protocol['channelWindowAdjust']?.((Reflect.get(wire.channel, 'outgoing') as { id: number }).id, 0x7fff_0000)
      wire.channel.write(packet(1, uint32(3)))
      wire.channel.write(packet(3, uint32(1), text('/big'), uint32(READ), uint32(0)))
      const before = held()
      if (way === 'does not read') socket.pause()
      for (let id = 2; id < 2000; id++) {
        wire.channel.write(packet(5, uint32(id), text(uint32(1)), uint64(0n), uint32(250_000)))
      }
      // Its answers are not looked at: for the client the exchange goes on for ever.
      if (way === 'exchanges keys') {
        socket.removeAllListeners('data')
        protocol['rekey']?.()
        socket.resume()
      }
      await others()
      expect([way, held() - before < 64]).toEqual([way, true])
      socket.destroy()
    }
    await others()
  },
)

test('names that are no UTF-8 are made, listed, given another name and removed by their bytes', async () => {
  const client = await connect(stage)
  const wire = await SftpWire.open(client)
  const name = Buffer.from('a\xff\x80', 'latin1')
  const other = Buffer.from('b\xc3', 'latin1')
  await wire.ask(14, text('/bytes'), uint32(0))
  const made = await wire.ask(3, text(Buffer.concat([Buffer.from('/bytes/'), name])), uint32(2 | 8), uint32(0))
  await wire.ask(4, text(firstText(made.body)))
  const names = () =>
    readdirSync(join(stage.folder, 'bytes'), { encoding: 'buffer' }).map((one) => one.toString('latin1'))
  expect(names()).toEqual(['a\xff\x80'])
  const folder = await wire.ask(11, text('/bytes'))
  const page = await wire.ask(12, text(firstText(folder.body)))
  expect(page.body.includes(name)).toBe(true)
  const at = (one: Buffer) => text(Buffer.concat([Buffer.from('/bytes/'), one]))
  expect((await wire.ask(18, at(name), at(other))).status).toBe(0)
  expect(names()).toEqual(['b\xc3'])
  expect((await wire.ask(13, at(other))).status).toBe(0)
  client.end()
})

test('ports, agents and programs of the node are nobody’s to reach', async () => {
  const client = await connect(stage)
  const refused = (work: (done: (error: Error | undefined) => void) => void) =>
    new Promise<boolean>((resolve) => work((error) => resolve(error !== undefined)))
  expect(await refused((done) => client.forwardOut('127.0.0.1', 1, '127.0.0.1', stage.port, done))).toBe(true)
  expect(await refused((done) => client.forwardIn('127.0.0.1', 0, done))).toBe(true)
  expect(await refused((done) => client.openssh_forwardOutStreamLocal('/run/docker.sock', done))).toBe(true)
  expect(await refused((done) => client.subsys('shell', done))).toBe(true)
  const [code] = await new Promise<[number]>((resolve) =>
    client.exec('touch /tmp/panel-sftp-was-here', (_, channel) => {
      channel.resume()
      channel.once('exit', (...given: [number]) => resolve(given))
    }),
  )
  expect([code, existsSync('/tmp/panel-sftp-was-here')]).toEqual([1, false])
  client.end()
})

test('a connection has six attempts, and an address twenty that have not come in', async () => {
  const guesser = new ssh.Client()
  const ended = once(guesser, 'close')
  guesser.on('error', () => {}) // it is cut off
  let attempts = 0
  const authHandler = (_: unknown, __: unknown, next: (method: object) => void): void => {
    attempts++
    next({ type: 'publickey', username: stage.user, key: ssh.utils.generateKeyPairSync('ed25519').private })
  }
  guesser.connect({ host: '127.0.0.1', port: stage.port, username: stage.user, authHandler: authHandler as never })
  await ended
  expect(attempts).toBe(7)
  const sockets: Socket[] = []
  const ends: Promise<unknown>[] = []
  for (let count = 0; count < 30; count++) {
    const socket = connectTcp(stage.port, '127.0.0.1')
    socket.on('error', () => {})
    sockets.push(socket)
    ends.push(once(socket, 'close'))
    await once(socket, 'connect')
  }
  let closed = 0
  for (const end of ends) void end.then(() => closed++)
  await expect.poll(() => closed, { timeout: 10_000 }).toBe(10)
  for (const socket of sockets) socket.destroy()
  await Promise.all(ends)
  // The server learns of their ends a moment later.
  await expect
    .poll(
      () =>
        others().then(
          () => true,
          () => false,
        ),
      { timeout: 10_000 },
    )
    .toBe(true)
})

test('what is no SSH ends its connection alone', async () => {
  const socket = connectTcp(stage.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`GET / HTTP/1.1\r\n${'x'.repeat(100_000)}\r\n\r\n`)
  socket.resume()
  await once(socket, 'close')
  await others()
})

test('a flood of new keys ends its connection alone', LONG, async () => {
  const client = await connect(stage)
  client.on('error', () => {})
  const ended = once(client, 'close')
  const protocol = Reflect.get(client, '_protocol') as { rekey(): void } // what a client of its own making sends
  const again = (): void => {
    if (client.listenerCount('close') > 0) protocol.rekey()
  }
  client.on('rekey' as never, again)
  again()
  const tick = setInterval(again, 1)
  await ended
  clearInterval(tick)
  await others()
})

test.skipIf(!OPENSSH)(
  `new keys every 64 KiB are fine${skippedUnless(OPENSSH, 'openssh-client and sshpass')}`,
  LONG,
  async () => {
    const sent = stage.write('often', Buffer.alloc(2 * MIB, 3))
    const args = ['-o', 'RekeyLimit=64K', '-o', 'BatchMode=no', '-q', '-b', '-', '-P', String(stage.port)]
    const ended = await stage.run('sftp', [...args, `${stage.user}@127.0.0.1`], {
      input: `put ${sent} often\nget often ${sent}.back\n`,
    })
    expect(ended).toMatchObject({ status: 0 })
  },
)
