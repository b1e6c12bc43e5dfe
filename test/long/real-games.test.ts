// @module-tag long
import { createSocket } from 'node:dgram'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SplitPanel } from '../e2e/split-panel.ts'
import { gone, isAlive, userOf } from '../e2e/wait.ts'
import {
  type GameAddress,
  probeFreeciv,
  probeMinetest,
  probeOpenttdTcp,
  probeOpenttdUdp,
  probeTeeworlds,
} from '../games/probe.ts'
import { quietPort } from '../ports.ts'
import type { Ran } from '../run-panel.ts'
import { skippedUnless } from '../skips.ts'

interface Game {
  readonly template: string
  readonly program: string
  readonly protocol: 'tcp' | 'udp'
  readonly ready: string
  /** A console command and what its answer looks like. */
  readonly ask?: readonly [command: string, answer: string]
  readonly probe: (address: GameAddress) => Promise<unknown>
  /** How it ends when it is asked to. */
  readonly exit: { readonly lastExitCode: number | null; readonly lastExitSignal: string | null }
}

const GAMES: readonly Game[] = [
  {
    template: 'openttd',
    program: '/usr/games/openttd',
    protocol: 'tcp',
    ready: 'Network revision name',
    ask: ['getdate', 'Date: +\\d'],
    probe: async (address) => [await probeOpenttdUdp(address), await probeOpenttdTcp(address)],
    exit: { lastExitCode: 0, lastExitSignal: null },
  },
  {
    template: 'freeciv',
    program: '/usr/games/freeciv-server',
    protocol: 'tcp',
    ready: 'Now accepting new client connections',
    ask: ['set aifill 3', "'aifill' has been set to 3"],
    probe: async (address) => expect(await probeFreeciv(address)).toMatchObject({ mayJoin: true }),
    exit: { lastExitCode: 0, lastExitSignal: null },
  },
  {
    template: 'luanti',
    program: '/usr/lib/minetest/minetestserver',
    protocol: 'udp',
    ready: 'listening on',
    probe: async (address) => expect(await probeMinetest(address)).toBeGreaterThan(1),
    exit: { lastExitCode: 0, lastExitSignal: null },
  },
  {
    template: 'teeworlds',
    program: '/usr/games/teeworlds-server',
    protocol: 'udp',
    ready: 'server name is',
    probe: async (address) => expect(await probeTeeworlds(address)).toMatchObject({ gameType: 'DM' }),
    exit: { lastExitCode: null, lastExitSignal: 'SIGTERM' },
  },
]

let panel: SplitPanel

beforeAll(async () => {
  panel = await SplitPanel.enter()
})

afterAll(async () => {
  await panel.leave()
})

async function ok(args: readonly string[]): Promise<string> {
  const ran = await panel.run(args)
  expect(ran, `${args.join(' ')}\n${ran.stderr}`).toMatchObject({ code: 0 })
  return ran.stdout
}

const view = async (name: string) => JSON.parse(await ok(['servers', 'view', name, '-o', 'json']))

function create(name: string, template: string, port: number, more: readonly string[] = []): Promise<Ran> {
  const where = ['--template', template, '--node', 'box', '--port', String(port), '--disk', '1G']
  return panel.run(['servers', 'create', '--name', name, ...where, ...more, '-o', 'json'])
}

/** Takes the port, as a program would that does not belong to the panel; answers how to give it back. */
function occupy(protocol: 'tcp' | 'udp', port: number): Promise<() => Promise<void>> {
  return new Promise((resolve, reject) => {
    if (protocol === 'tcp') {
      const server = createServer().once('error', reject)
      const close = () => new Promise<void>((done) => server.close(() => done()))
      server.listen(port, '127.0.0.1', () => resolve(close))
    } else {
      const socket = createSocket('udp4').once('error', reject)
      const close = () => new Promise<void>((done) => socket.close(() => done()))
      socket.bind(port, '127.0.0.1', () => resolve(close))
    }
  })
}

it('a daemon of its own has the starter templates', async () => {
  const names = (await ok(['templates', 'list', '-o', 'name'])).trim().split('\n')
  expect(names).toEqual(expect.arrayContaining(['Demo game', 'Freeciv', 'Luanti (minetest)', 'OpenTTD', 'Teeworlds']))
})

describe.each(GAMES)('$template', (game) => {
  const { template, protocol, ready, ask, probe, exit } = game
  const name = `my-${template}`
  const templateName = `${template}-example`
  let port: number

  describe.skipIf(!existsSync(game.program))(
    `from Debian${skippedUnless(existsSync(game.program), game.program)}`,
    () => {
      beforeAll(async () => {
        port = await quietPort()
        const file = fileURLToPath(new URL(`../../templates/${template}.yaml`, import.meta.url))
        await ok(['templates', 'create', '-F', file, '--name', templateName])
      })

      it('runs by its template, answers players and its console, and stops as it is asked to', async () => {
        const created = await create(name, templateName, port, ['--start', '--wait', '--timeout', '60s'])
        expect(created, created.stderr).toMatchObject({ code: 0 })
        expect(JSON.parse(created.stdout)).toMatchObject({ status: 'running', installed: true, crashCount: 0 })
        expect(await ok(['console', 'logs', name, '--tail', '500'])).toContain(ready)
        await probe({ host: '127.0.0.1', port })
        const { pid } = await view(name)
        if (process.getuid?.() === 0) expect(await userOf(pid)).toBeGreaterThan(0)
        if (ask !== undefined) {
          const answer = await ok(['console', 'expect', name, ask[1], '--send', ask[0], '--timeout', '20s'])
          expect(answer).toMatch(new RegExp(ask[1]))
        }

        await ok(['servers', 'stop', name, '--wait', '--timeout', '60s'])
        expect(await view(name)).toMatchObject({
          status: 'stopped',
          desired: 'stopped',
          crashCount: 0,
          pid: null,
          ...exit,
        })
        await gone(pid)
      })

      it('starts a second time', async () => {
        await ok(['servers', 'start', name, '--no-wait'])
        await ok(['servers', 'wait', name, '--for', 'state=running', '--timeout', '60s'])
        await probe({ host: '127.0.0.1', port })
        const { pid } = await view(name)
        await ok(['servers', 'power', 'stop', name, '--wait', '--timeout', '60s'])
        expect(await isAlive(pid)).toBe(false)
      })

      it('is never shown as running on a taken port, and everywhere says why', async () => {
        const { id } = await view(name)
        const reported = (await panel.events(id)).length
        const free = await occupy(protocol, port)
        try {
          const sentence = `Port 127.0.0.1:${port} (${protocol.toUpperCase()}) is in use by another program`
          const started = await panel.run(['servers', 'start', name, '--wait', '--timeout', '30s'])
          expect(started.code).toBe(11)
          expect(started.stderr).toContain(sentence)
          const after = await view(name)
          expect(after).toMatchObject({ status: 'stopped', pid: null, reason: expect.stringContaining(sentence) })
          expect(await ok(['console', 'logs', name, '--tail', '5'])).toContain(sentence)
          const events = (await panel.events(id)).slice(reported)
          expect(events.map(({ data }) => data['state'])).not.toContain('running')
          const done = events.filter(({ type }) => type === 'server_command_done')
          expect(done.map(({ data }) => [data['ok'], data['code']])).toEqual([[false, 'PORT_IN_USE']])
        } finally {
          await free()
        }
        await ok(['servers', 'start', name, '--wait', '--timeout', '60s'])
        await ok(['servers', 'kill', name, '--wait', '--timeout', '30s'])
      })

      it('is not created on the port of another server, and its creation on a taken port ends with the reason', async () => {
        const second = await create(`${name}-2`, templateName, port)
        expect(second.code).toBe(7)
        expect(second.stderr).toContain(String(port))
        const other = await quietPort()
        const free = await occupy(protocol, other)
        try {
          const third = await create(`${name}-3`, templateName, other, ['--start', '--wait', '--timeout', '30s'])
          expect(third.code).toBe(11)
          expect(third.stderr).toContain(
            `Port 127.0.0.1:${other} (${protocol.toUpperCase()}) is in use by another program`,
          )
        } finally {
          await free()
        }
      })
    },
  )
})
