// @module-tag long
import { existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { skippedUnless } from '../skips.ts'
import { Machine, noMachines, type Running } from './network-machine.ts'

const GAME = '/usr/lib/minetest/minetestserver'
const why = noMachines()
const runs = why === undefined && existsSync(GAME)
const WHY_NOT = why === undefined ? skippedUnless(existsSync(GAME), GAME) : ` (skipped: ${why})`

/** Addresses of two machines at one wire. */
const [HERE, THERE] = ['192.168.7.20', '192.168.7.21']
const PASSWORD = 'Correct-horse-7-battery'

/**
 * Connects as a new player's program does, and answers the first 12 bytes of what comes: Luanti's protocol id (4f457403), the sender
 * (0001, the server), a reliable packet that gives the peer its number. Nothing comes where nobody listens.
 */
const ASK = `
const [host, port] = process.argv.slice(1)
const socket = require('node:dgram').createSocket('udp4')
let tries = 0
const ask = () => { if (tries++ === 20) { console.log('silent'); process.exit(0) } socket.send(Buffer.from('4f45740300000001', 'hex')) }
socket.on('error', () => {}) // a closed port is a lost packet
socket.on('message', (answer) => { console.log('answer', answer.toString('hex')); process.exit(0) })
socket.connect(Number(port), host, () => { ask(); setInterval(ask, 250) })
`

/** The two lines of somebody's first game, as they are typed: no port, no address, no node. */
const FIRST_GAME = [
  './panel templates install luanti',
  './panel servers create --name x --template luanti --start --wait --timeout 90s',
]

async function ok(machine: Machine, lines: string, input?: string): Promise<string> {
  const { code, output } = await machine.run(lines, input)
  expect(code, `${lines}\n${output}`).toBe(0)
  return output
}

/** Where players join, by what `servers view` says. */
async function addressOfGame(machine: Machine): Promise<{ host: string; port: number; shown: string }> {
  const view = await ok(machine, './panel servers view x -o json 2> /dev/null')
  const { primaryIp, primaryPort, status } = JSON.parse(view)
  expect(status).toBe('running')
  const shown = await ok(machine, './panel servers view x 2> /dev/null')
  return { host: primaryIp, port: primaryPort, shown }
}

/** Whether a game of Luanti answers, as a program on that machine sees it. */
async function answers(machine: Machine, { host, port }: { host: string; port: number }): Promise<boolean> {
  const said = await ok(machine, `node -e "$(cat)" ${host} ${port}`, ASK)
  if (said.includes('silent')) return false
  expect(said).toMatch(/answer 4f4574030001/)
  return true
}

async function both(): Promise<[Machine, Machine]> {
  const machines: [Machine, Machine] = [await Machine.boot({}), await Machine.boot({})]
  Machine.connect(...machines, [HERE, THERE])
  return machines
}

describe.skipIf(!runs)(`the first game${WHY_NOT}`, { timeout: 240_000 }, () => {
  describe('of a daemon and an agent that has enrolled', () => {
    let home: Machine
    let player: Machine
    let daemon: Running
    let agent: Running

    beforeAll(async () => {
      ;[home, player] = await both()
      const daemonLines = `
        openssl rand -base64 32 > key; export PANEL_CREDENTIAL_KEY_FILE=key PANEL_SETUP_TOKEN=a-setup-token-for-tests-only
        exec ./panel daemon run --listen 127.0.0.1:7420 --data-dir data`
      daemon = home.start(daemonLines, { terminal: true })
      await daemon.says('Complete it with: panel setup')
      const setup = 'PANEL_SETUP_TOKEN=a-setup-token-for-tests-only ./panel setup --url http://127.0.0.1:7420'
      await ok(home, `${setup} --admin-email me@example.org --admin-username admin --password-stdin`, PASSWORD)
      await ok(
        home,
        `./panel locations create --name here; ./panel nodes create --name box --location here --memory 4G --cpu 2
        ./panel nodes enroll-token box > token
        ./panel agent enroll --url http://127.0.0.1:7420 --data-dir "$PWD/agent" --token-stdin < token`,
      )
      agent = home.start('exec ./panel agent run --data-dir "$PWD/agent"', { terminal: true })
      const isOnline = './panel nodes view box -o json --jq .isOnline | grep -q true'
      await ok(home, `for i in $(seq 60); do ${isOnline} && exit 0; sleep 0.5; done; ./panel nodes view box; exit 1`)
    }, 120_000)
    afterAll(async () => {
      await home?.shutDown()
      await player?.shutDown()
    })

    it('is reached from another machine at the address that is shown, with no port and no address typed', async () => {
      for (const line of FIRST_GAME) await ok(home, line)
      const address = await addressOfGame(home)
      expect(address.host).toBe(HERE)
      expect(address.shown).toContain(`${HERE}:${address.port}`)
      expect(await answers(player, address)).toBe(true)
      // Nothing else answers so: not another port, and not this one after the game.
      expect(await answers(player, { ...address, port: address.port + 7 })).toBe(false)
      await ok(home, './panel servers stop x --wait')
      expect(await answers(player, address)).toBe(false)
      for (const running of [agent, daemon]) running.type('\u0003')
      await agent.ended
      await daemon.ended
    })
  })

  describe('of panel up', () => {
    let home: Machine
    let player: Machine

    beforeAll(async () => {
      ;[home, player] = await both()
    }, 60_000)
    afterAll(async () => {
      await home?.shutDown()
      await player?.shutDown()
    })

    it('answers on the machine itself, and elsewhere after its one address was given away', async () => {
      const up = home.start('./panel up', { terminal: true })
      await up.says('Ctrl-C stops daemon and node')
      for (const line of FIRST_GAME) await ok(home, line)
      const own = await addressOfGame(home)
      expect(own.host).toBe('127.0.0.1')
      expect(await answers(home, own)).toBe(true)
      expect(await answers(player, { host: HERE, port: own.port })).toBe(false)
      await ok(
        home,
        `./panel servers stop x --wait; ./panel servers edit x --ip ${HERE}; ./panel servers start x --wait`,
      )
      const open = await addressOfGame(home)
      expect(open.host).toBe(HERE)
      expect(await answers(player, open)).toBe(true)
      await ok(home, './panel servers stop x --wait')
      up.type('\u0003')
      await up.ended
    })
  })
})
