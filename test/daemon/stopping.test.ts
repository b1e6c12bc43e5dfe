import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, it } from 'vitest'
import { openAccountsDoor } from './accounts-door.ts'

it('a connection on which nothing was ever asked does not hold up the stop', async () => {
  const door = await openAccountsDoor()
  const port = Number(new URL(door.url).port)
  const unused = connect(port, '127.0.0.1')
  await once(unused, 'connect')
  unused.resume()
  const ended = once(unused, 'close')
  // A whole exchange on another connection: by now the server has taken the first one, too.
  expect((await fetch(`${door.url}/api/setup/status`)).status).toBe(200)
  await door.close()
  await ended
})
