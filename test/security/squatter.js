// Listens on the given addresses (host:port …) and reports, a line each, what it is sent. Run by a stranger to the panel.
import { createServer } from 'node:net'

const [, mode, ...given] = process.argv
const places = given.map((place) => {
  const at = place.lastIndexOf(':')
  return { host: place.slice(0, at), port: Number(place.slice(at + 1)) }
})
const say = (word, value = '') => process.stdout.write(`${word} ${value}\n`)
const BODY = JSON.stringify({ success: false, error: 'no', code: 'PERMISSION_DENIED' })

for (const { host, port } of places) {
  const server = createServer((socket) => {
    if (mode === 'accept-and-leave') server.close(() => {}) // keeps the connection, gives the port away
    if (mode === 'greet') socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
    let bytes = 0
    socket.on('data', (chunk) => {
      bytes += chunk.length
      say('sent', JSON.stringify(chunk.toString('latin1')))
      if (mode === 'answer') socket.end(`HTTP/1.1 403 Forbidden\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`)
    })
    socket.on('error', () => {})
    socket.on('close', () => say('closed', bytes))
    say('connected')
  })
  const listen = () => server.listen({ host, port, ipv6Only: false })
  // As a game would that waits for the panel to go.
  server.on('error', () => setTimeout(listen, 20))
  server.on('listening', () => say('listening', port))
  listen()
}
