/**
 * A game with RCON, by the public descriptions of the protocol (Source, as Valve's wiki has it, and Minecraft): it logs in by its
 * password, answers commands, and misbehaves as its first argument and its commands say. Its other arguments: port, password.
 *
 * No other server is there to test with: games that speak it are packages of neither Debian nor npm, and the one library for npm that
 * plays a server answers logins by types of packets that the description does not have.
 */
import { createServer, type Socket } from 'node:net'

const [, , kind = 'source', port = '0', password = ''] = process.argv
const isSource = !kind.startsWith('minecraft')
const PART = 4096

function packet(id: number, type: number, text: string): Buffer {
  const body = Buffer.from(text)
  const bytes = Buffer.alloc(14 + body.length)
  bytes.writeInt32LE(10 + body.length, 0)
  bytes.writeInt32LE(id, 4)
  bytes.writeInt32LE(type, 8)
  body.copy(bytes, 12)
  return bytes
}

/** Sends a byte at a time, in the way of a slow network, and what follows behind it. */
async function inPieces(socket: Socket, bytes: Buffer): Promise<void> {
  for (const byte of bytes) {
    socket.write(Buffer.from([byte]))
    await new Promise((resolve) => setImmediate(resolve))
  }
}

function answerTo(command: string): string {
  const [word = '', size = '0'] = command.split(' ')
  if (word === 'long') return Array.from({ length: Number(size) }, (_, index) => `line ${index}\n`).join('')
  if (word === 'exact') return 'x'.repeat(Number(size))
  if (word === 'password') return `it is ${password}`
  if (word === 'colour') return '§agreen§r and plain'
  if (word === 'silent') return ''
  return `did ${command}`
}

/** What is sent without an end, by the command that asks for it. */
const FLOODS: Readonly<Record<string, (id: number) => Buffer>> = {
  'flood empty': (id) => packet(id, 0, ''),
  'flood others': (id) => packet(id + 1000, 0, 'for somebody else'),
}

/** Writes the same packet as long as the other side reads; says when that has closed the connection. */
function flood(socket: Socket, one: Buffer): void {
  const many = Buffer.concat(Array.from({ length: 4096 }, () => one))
  const write = (): void => {
    while (!socket.destroyed && socket.write(many)) {}
  }
  socket.on('drain', write)
  socket.on('close', () => console.log('flood closed'))
  write()
}

let waiting: Promise<void> = Promise.resolve()

function answer(socket: Socket, id: number, command: string): void {
  if (command === 'hang') return
  if (command === 'drop') return void socket.destroy()
  if (command === 'garbage') return void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')
  if (command === 'flood later') {
    socket.write(packet(id, 0, 'now'))
    setTimeout(() => flood(socket, packet(id + 1000, 0, 'nobody asks any more')), 600)
    return
  }
  if (command === 'endless') {
    const write = (): void => {
      while (!socket.destroyed && socket.write(packet(id, 0, 'y'.repeat(4000)))) {}
    }
    socket.on('drain', write)
    write()
    return
  }
  const flooding = FLOODS[command]
  if (flooding !== undefined) {
    flood(socket, flooding(id))
    return
  }
  if (command === 'broken off') {
    socket.end(Buffer.concat([packet(id, 0, 'z'.repeat(PART)), packet(id, 0, 'the second part').subarray(0, 20)]))
    return
  }
  if (command === 'trickle') {
    const timer = setInterval(() => socket.write(packet(id, 0, 'drip\n')), 100)
    socket.on('close', () => clearInterval(timer))
    return
  }
  if (command === 'emoji') {
    // Parts end where bytes are full, also within a character.
    const bytes = Buffer.from(`x${'😀'.repeat(5000)}`)
    for (let at = 0; at < bytes.length; at += 4000) {
      const part = packet(id, 0, '.'.repeat(Math.min(4000, bytes.length - at)))
      bytes.copy(part, 12, at, at + 4000)
      socket.write(part)
    }
    return
  }
  if (command === 'binary') {
    const body = Buffer.from([0x61, 0xff, 0xfe, 0x1b, 0x5b, 0x33, 0x31, 0x6d, 0xc3, 0x28, 0x07, 0x9b, 0x62])
    const bytes = packet(id, 0, 'x'.repeat(body.length))
    body.copy(bytes, 12)
    socket.write(bytes)
    return
  }
  if (command === 'stop' && kind === 'source-abrupt') {
    socket.destroy()
    setTimeout(() => {
      console.log('saved')
      process.exit(0)
    }, 500)
    return
  }
  if (command === 'stop') {
    socket.write(packet(id, 0, 'stopping'), () => process.exit(0))
    return
  }
  const text = answerTo(command)
  const parts = [text.slice(0, PART)]
  for (let at = PART; at < text.length; at += PART) parts.push(text.slice(at, at + PART))
  const bytes = Buffer.concat(parts.map((part) => packet(id, 0, part)))
  if (command === 'slow') waiting = inPieces(socket, bytes)
  else socket.write(bytes)
}

createServer((socket) => {
  let held = Buffer.alloc(0)
  let isIn = false
  console.log('connected')
  socket.on('error', () => undefined)
  socket.on('data', (chunk) => {
    held = Buffer.concat([held, chunk])
    let first = true
    while (held.length >= 4 && held.length >= 4 + held.readInt32LE(0)) {
      const length = held.readInt32LE(0)
      const [id, type, text] = [held.readInt32LE(4), held.readInt32LE(8), held.toString('utf8', 12, 2 + length)]
      held = held.subarray(4 + length)
      // Minecraft takes one packet of what it reads at once, and loses the rest.
      if (!isSource && !first) continue
      first = false
      if (kind === 'mute') continue
      if (type === 2) console.error(`heard ${text}`)
      if (type === 3) {
        isIn = text === password && kind !== 'refusing'
        if (isSource) socket.write(packet(id, 0, ''))
        socket.write(packet(isIn ? id : -1, 2, ''))
      } else if (!isIn) socket.destroy()
      else if (type === 2) answer(socket, id, text)
      else if (!isSource) socket.write(packet(id, 0, `Unknown request ${type.toString(16)}`))
      else if (kind !== 'source-plain') {
        void waiting.then(() => socket.write(Buffer.concat([packet(id, 0, ''), packet(id, 0, '\u0001')])))
      }
    }
  })
}).listen(Number(port), '127.0.0.1', () => console.log(`ready with ${password}`))
