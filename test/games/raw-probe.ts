import { createSocket } from 'node:dgram'
import { connect } from 'node:net'
import { until } from '../e2e/wait.ts'
import type { GameAddress } from './probe.ts'

/** A question of a game's own protocol, and bytes that its answer contains, both as latin1; `''`: any answer is one. */
export interface RawQuestion {
  readonly over: 'tcp' | 'udp'
  readonly send: string
  readonly expect: string
}

/** Resolves with the answer; asks again, for packets get lost and some games open their socket once more behind their ready line. */
export function answerOf(address: GameAddress, question: RawQuestion, withinMs = 8000): Promise<string> {
  const ask = question.over === 'udp' ? askUdp : askTcp
  return until(`an answer of ${address.host}:${address.port}`, () => ask(address, question), withinMs)
}

/** Whether the game is silent now. */
export async function isSilent(address: GameAddress, question: RawQuestion): Promise<boolean> {
  return (await (question.over === 'udp' ? askUdp : askTcp)(address, question)) === undefined
}

function askUdp({ host, port }: GameAddress, { send, expect }: RawQuestion): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4')
    // Armagetron answers nobody's first packet.
    const again = setInterval(() => socket.send(Buffer.from(send, 'latin1')), 250)
    const end = (answer: string | undefined): void => {
      clearTimeout(late)
      clearInterval(again)
      socket.close()
      resolve(answer)
    }
    const late = setTimeout(() => end(undefined), 1200)
    socket.on('error', () => undefined) // a closed port is a lost packet
    socket.on('message', (answer) => {
      if (answer.toString('latin1').includes(expect)) end(answer.toString('latin1'))
    })
    socket.connect(port, host, () => socket.send(Buffer.from(send, 'latin1')))
  })
}

function askTcp({ host, port }: GameAddress, { send, expect }: RawQuestion): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    let heard = ''
    const end = (answer: string | undefined): void => {
      clearTimeout(late)
      socket.destroy()
      resolve(answer)
    }
    const late = setTimeout(() => end(undefined), 2000)
    socket.on('error', () => end(undefined))
    socket.on('close', () => end(undefined))
    socket.on('connect', () => socket.write(Buffer.from(send, 'latin1')))
    socket.on('data', (chunk) => {
      heard += chunk.toString('latin1')
      if (heard.includes(expect)) end(heard)
    })
  })
}
