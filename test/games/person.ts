import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { GameAddress } from './probe.ts'

/** Somebody at a terminal who plays the demo game: all that came in is kept as text. */
export class Person {
  text = ''
  readonly gone: Promise<void>
  readonly socket: Socket

  constructor(socket: Socket) {
    this.socket = socket
    socket.setEncoding('utf8')
    socket.on('data', (chunk) => {
      this.text += chunk
    })
    socket.on('error', () => undefined) // a cut connection is what some tests want; `gone` tells of it
    this.gone = new Promise((resolve) => socket.once('close', () => resolve()))
  }

  type(text: string | Buffer): void {
    this.socket.write(text)
  }

  /** Resolves when the text has come in, and rejects when it cannot any more. */
  async sees(text: string): Promise<void> {
    const deadline = AbortSignal.timeout(10_000)
    while (!this.text.includes(text)) {
      if (deadline.aborted || this.socket.closed) throw new Error(`"${text}" is not in:\n${this.text}`)
      const news = once(this.socket, 'data', { signal: deadline })
      await Promise.race([news, this.gone]).catch(() => undefined) // the loop looks at the deadline
    }
  }
}

/** Connects without a word. */
export async function visit(address: GameAddress): Promise<Person> {
  const socket = connect(address)
  const person = new Person(socket)
  await once(socket, 'connect')
  return person
}

/** Connects and joins the game under a name. */
export async function play(address: GameAddress, name: string): Promise<Person> {
  const person = await visit(address)
  person.type(`${name}\n`)
  await person.sees(`Hello ${name}.`)
  return person
}
