import { createReadStream, createWriteStream } from 'node:fs'
import { rename } from 'node:fs/promises'
import { type ClientRequest, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { answerAll } from './processes.ts'

/** The program is the one between client and disk, or, with `peer`, the one at the disk. */
export interface BareTransfersOptions {
  readonly role: 'between' | 'disk'
  readonly peer?: string
  readonly file?: string
}

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>

answerAll(async (question) => {
  const options = question as BareTransfersOptions // from the bench, see Helper.ask
  return { url: await listen(options.role === 'between' ? between() : disk(options)) }
})

/**
 * What a program without a panel would do with the same hops: the client asks the program between; that one asks the program at the disk,
 * which sends the bytes to it or fetches them there, in a request of its own. Nothing is hashed, checked, counted or recorded.
 */
function between(): Handler {
  let diskUrl = ''
  let waiting: { readonly client: IncomingMessage; readonly answer: ServerResponse } | undefined
  return async (client, answer) => {
    if (client.url === '/disk') {
      for await (const text of client.setEncoding('utf8')) diskUrl = String(text)
    } else if (client.url === '/bulk') {
      if (waiting === undefined) throw new Error('nobody waits')
      const { client: asker, answer: waits } = waiting
      if (client.method === 'GET') return await pipeline(asker, answer)
      waits.writeHead(200, { 'content-type': 'application/octet-stream' })
      await pipeline(client, waits)
    } else {
      waiting = { client, answer }
      await answered(request(`${diskUrl}${client.method === 'GET' ? '/send' : '/receive'}`, { method: 'POST' }).end())
      if (client.method === 'GET') return
    }
    answer.end()
  }
}

function disk({ peer = '', file = '' }: BareTransfersOptions): Handler {
  return async (order, answer) => {
    if (order.url === '/send') {
      const put = request(`${peer}/bulk`, { method: 'PUT', agent: false })
      const taken = answered(put)
      await pipeline(createReadStream(file, { highWaterMark: 256 * 1024 }), put)
      await taken
    } else {
      const part = `${file}.part`
      const bytes = await response(request(`${peer}/bulk`, { agent: false }).end())
      await pipeline(bytes, createWriteStream(part, { flush: true }))
      await rename(part, `${file}.new`)
    }
    answer.end()
  }
}

function response(sent: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.once('response', resolve)
    sent.once('error', reject)
  })
}

async function answered(sent: ClientRequest): Promise<void> {
  for await (const _ of await response(sent));
}

async function listen(handle: Handler): Promise<string> {
  const server = createServer((client, answer) => {
    handle(client, answer).catch((error: unknown) => {
      process.stderr.write(`${String(error)}\n`)
      answer.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener has one
}
