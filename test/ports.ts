import { createServer } from 'node:net'

/** Below what the kernel gives to outgoing connections, and below what `panel up` gives to a demo game (25,600). */
const FIRST = 20_000
const PER_WORKER = 1_350
const WORKERS = 4

const first = FIRST + (Number(process.env['VITEST_POOL_ID'] ?? 0) % WORKERS) * PER_WORKER
let next = Math.floor(Math.random() * PER_WORKER)

/**
 * A port of 127.0.0.1 that nobody listens on over TCP. It stays free until its taker listens, and while that is away:
 * no other worker of this run is given it, this one only after a thousand others, and no outgoing connection has it.
 */
export async function quietPort(): Promise<number> {
  for (;;) {
    const port = first + (next++ % PER_WORKER)
    if (await canListen(port)) return port
  }
}

/** Whether the port can be listened on now. */
function canListen(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
