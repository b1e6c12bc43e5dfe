// @module-tag long
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SplitPanel } from '../e2e/split-panel.ts'
import { gone, until, userOf } from '../e2e/wait.ts'
import type { GameAddress } from '../games/probe.ts'
import { answerOf, isSilent, type RawQuestion } from '../games/raw-probe.ts'
import { joinTeeworlds } from '../games/teeworlds-client.ts'
import { quietPort } from '../ports.ts'
import { skippedUnless } from '../skips.ts'

interface Game {
  /** What the catalogue calls it. */
  readonly name: string
  /** What must be on this machine. */
  readonly needs: string
  readonly question: RawQuestion
  /** What `servers view` says of players once the game was asked; `null`: it cannot be asked. */
  readonly playersMax: number | null
  readonly ask?: readonly [command: string, answer: string]
  readonly exit?: { readonly lastExitCode: number | null; readonly lastExitSignal: string | null }
  /** Joins as a client of the game; resolves with how to leave. */
  readonly join?: (address: GameAddress, files: string) => Promise<() => Promise<void>>
  readonly names?: readonly string[]
  readonly disk?: string
  readonly environment?: readonly string[]
  readonly installSeconds?: number
}

const MARK = '\xff\xff\xff\xff'
const CROSSFIRE_HELLO = 'version 1023 1029 probe'

const GAMES: readonly Game[] = [
  {
    name: 'armagetron',
    needs: '/usr/games/armagetronad-dedicated.real',
    question: { over: 'udp', send: '\0\x35\0\0\0\0\0\x11', expect: '\0\x33\0' },
    playersMax: 16,
    ask: ['SAY good evening', 'Admin: good evening'],
  },
  {
    name: 'bzflag',
    needs: '/usr/games/bzfs',
    question: { over: 'tcp', send: 'BZFLAG\r\n\r\n', expect: 'BZFS0221' },
    playersMax: 20,
  },
  {
    name: 'crossfire',
    needs: '/usr/sbin/crossfire-server',
    question: {
      over: 'tcp',
      send: `\0${String.fromCharCode(CROSSFIRE_HELLO.length)}${CROSSFIRE_HELLO}`,
      expect: 'version ',
    },
    playersMax: null,
  },
  {
    name: 'mumble',
    needs: '/usr/sbin/murmurd',
    question: { over: 'udp', send: '\0\0\0\x00abcdefgh', expect: 'abcdefgh' },
    playersMax: 50,
  },
  {
    name: 'openarena',
    needs: '/usr/lib/openarena-server/baseoa/pak0.pk3',
    question: { over: 'udp', send: `${MARK}getinfo xyz\n`, expect: '\\challenge\\xyz' },
    playersMax: 12,
    ask: ['status', 'map: oa_dm1'],
  },
  {
    name: 'wesnoth',
    needs: '/usr/games/wesnothd-1.16',
    question: { over: 'tcp', send: '\0\0\0\0', expect: '' },
    playersMax: null,
    ask: ['help', 'Available commands are'],
  },
  {
    name: 'openttd',
    needs: '/usr/games/openttd',
    question: { over: 'tcp', send: '\x03\0\x07', expect: 'OpenTTD on panel' },
    playersMax: 25,
  },
  {
    name: 'freeciv',
    needs: '/usr/games/freeciv-server',
    question: {
      over: 'tcp',
      send: '\0\x2b\x04probe\0+Freeciv-3.0-network\0\0\0\0\0\x03\0\0\0\0\0\0\0\x06',
      expect: '\x05',
    },
    playersMax: null,
  },
  {
    name: 'luanti',
    needs: '/usr/lib/minetest/minetestserver',
    question: { over: 'udp', send: 'OEt\x03\0\0\0\x01', expect: 'OEt\x03\0\x01' },
    playersMax: null,
  },
  {
    name: 'teeworlds',
    needs: '/usr/games/teeworlds-server',
    question: { over: 'udp', send: `\x04\0\0${MARK}\x05abcd${'\0'.repeat(508)}`, expect: '\x04\0\0abcd\x05' },
    playersMax: 16,
    exit: { lastExitCode: null, lastExitSignal: 'SIGTERM' },
    join: joinTeeworlds,
  },
  {
    name: 'flying-squid',
    needs: '/usr/bin/npm',
    question: { over: 'tcp', send: `\x13\0\xff\xff\xff\xff\x0f\x09127.0.0.1\0\0\x01\x01\0`, expect: '"players"' },
    playersMax: 10,
    exit: { lastExitCode: null, lastExitSignal: 'SIGTERM' },
    join: joinMinecraft,
    names: ['Ann'],
    disk: '2G',
    environment: ['ONLINE_MODE=false', 'GENERATION=superflat'],
    installSeconds: 240,
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

const json = async (args: readonly string[]) => JSON.parse(await ok([...args, '-o', 'json']))
const view = (name: string) => json(['servers', 'view', name])

describe.each(GAMES)('$name of the catalogue', (game) => {
  const { name, needs, question, playersMax, ask, exit = { lastExitCode: 0, lastExitSignal: null } } = game
  const server = `my-${name}`

  it.skipIf(!existsSync(needs))(
    `answers its own protocol exactly while it is shown as running, and its players are counted${skippedUnless(existsSync(needs), needs)}`,
    async () => {
      const port = await quietPort()
      const address = { host: '127.0.0.1', port }
      await ok(['templates', 'install', name])
      const { installed, title } = (await json(['templates', 'catalog'])).find(
        (one: { name: string }) => one.name === name,
      )
      expect(installed).toMatchObject({ edited: false })
      const where = ['--template', title, '--node', 'box', '--port', String(port), '--disk', game.disk ?? '1G']
      const values = (game.environment ?? []).flatMap((value) => ['--env', value])
      const made = ['servers', 'create', '--name', server, ...where, ...values]
      const seconds = game.installSeconds ?? 60
      const created = await panel.run([...made, '--start', '--wait', '--timeout', `${seconds}s`])
      expect(created, created.stderr).toMatchObject({ code: 0 })

      const shown = await view(server)
      expect(shown).toMatchObject({ status: 'running', crashCount: 0, reason: null })
      if (process.getuid?.() === 0) expect(await userOf(shown.pid)).toBeGreaterThan(0)
      await answerOf(address, question)
      if (ask !== undefined) {
        const answer = await ok(['console', 'expect', server, ask[1], '--send', ask[0], '--timeout', '20s'])
        expect(answer).toContain(ask[1])
      }

      if (playersMax === null) expect(shown).toMatchObject({ playersOnline: null, playersMax: null })
      else await players(server, { playersOnline: 0, playersMax })
      if (game.join !== undefined) {
        const leave = await game.join(address, panel.filesOf(shown.id))
        await players(server, { playersOnline: 1, playersMax })
        if (game.names !== undefined)
          expect(await json(['servers', 'stats', server])).toMatchObject({ playerNames: game.names })
        await leave()
        await players(server, { playersOnline: 0, playersMax })
      }

      await ok(['servers', 'stop', server, '--wait', '--timeout', '60s'])
      expect(await view(server)).toMatchObject({
        status: 'stopped',
        crashCount: 0,
        pid: null,
        playersOnline: null,
        ...exit,
      })
      await gone(shown.pid)
      expect(await isSilent(address, question)).toBe(true)
    },
    400_000,
  )
})

/** Waits until the view says so: the agent asks every 15 s, and reports as often. */
async function players(server: string, wanted: Readonly<Record<string, number | null>>): Promise<void> {
  await until(
    `${server} to have ${JSON.stringify(wanted)}`,
    async () => {
      const shown = await view(server)
      return Object.entries(wanted).every(([field, value]) => shown[field] === value)
    },
    60_000,
  )
}

/** A player of Minecraft by the client that comes with flying-squid. */
async function joinMinecraft({ host, port }: GameAddress, files: string): Promise<() => Promise<void>> {
  const load = createRequire(join(files, 'node_modules/flying-squid/package.json'))
  const { createClient } = load('minecraft-protocol')
  const client = createClient({ host, port, username: 'Ann', auth: 'offline', version: '1.16.1' })
  await new Promise((resolve, reject) => {
    client.once('login', resolve)
    client.once('error', reject)
  })
  return async () => {
    client.end()
  }
}
