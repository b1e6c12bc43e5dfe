// @module-tag long
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { powerServer } from '../../src/shared/api/power.ts'
import { getServer } from '../../src/shared/api/servers.ts'
import { failedSteps, MigrationStage } from '../daemon/migration/migration-stage.ts'
import { until } from '../e2e/wait.ts'
import { textFile } from '../migration-source/files.ts'
import { quietPort } from '../ports.ts'

/** A game that says what stands in its world to whoever connects. */
const GAME = `
const { createServer } = require('node:net')
const { readFileSync } = require('node:fs')
createServer((socket) => socket.end(readFileSync('world/level.txt'))).listen(Number(process.argv[2]), () => console.log('Done (1s)'))
`

let stage: MigrationStage
let port: number

beforeAll(async () => {
  port = await quietPort()
  const few = {
    servers: 1,
    nodes: 1,
    suspended: 0,
    fullSlots: 0,
    zeroSlots: 0,
    oddities: false,
    filesPerServer: 1,
    fileKb: 1,
  }
  stage = await MigrationStage.open({
    source: {
      ...few,
      customize: ({ servers, eggs, allocations }) => {
        const [server] = servers
        const egg = eggs.find(({ id }) => id === server?.eggId)
        if (server === undefined || egg === undefined) throw new Error('a source has a server with an egg')
        egg.startup = `exec ${process.execPath} game.js {{SERVER_PORT}}`
        server.startup = egg.startup
        egg.files = {}
        server.tree.files.set('game.js', textFile(GAME))
        server.tree.files.set('world/level.txt', textFile('the world of the source'))
        for (const row of allocations) if (row.id === server.allocationId) row.port = port
      },
    },
  })
})

afterAll(() => stage.close())

it('a server that has moved in starts with its world, by the line of its egg, and answers', async () => {
  const job = await stage.moved()
  expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
  const [server] = await stage.servers()
  const serverId = server?.id ?? ('' as never)
  const { client } = stage.panel
  await client.call(powerServer, { params: { serverId }, body: { action: 'start' } })
  await until('the game is running', async () => {
    return (await client.call(getServer, { params: { serverId } })).status === 'running'
  })
  const socket = connect(port, '127.0.0.1')
  const pieces: Buffer[] = []
  socket.on('data', (piece: Buffer) => pieces.push(piece))
  await once(socket, 'close')
  expect(Buffer.concat(pieces).toString()).toBe('the world of the source')
}, 120_000)
