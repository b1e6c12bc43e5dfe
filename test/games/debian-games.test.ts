import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { NewTemplate } from '../../src/shared/api/template-fields.ts'
import { quietPort } from '../ports.ts'
import { skippedUnless } from '../skips.ts'
import { GameProcess, install, makeServerFolder, serverEnv } from './game-process.ts'
import { probeFreeciv, probeMinetest, probeOpenttdTcp, probeOpenttdUdp, probeTeeworlds } from './probe.ts'
import { readTemplate } from './starter-template.ts'

const EXAMPLES = new URL('../../templates/', import.meta.url)
const HOSTILE = "It's $(id) `id` & %s é €"

let folder: string
let port: number
let game: GameProcess | undefined

beforeEach(async () => {
  folder = await makeServerFolder()
  port = await quietPort()
})

afterEach(async () => {
  await game?.dispose()
  game = undefined
  await rm(folder, { recursive: true })
})

async function prepare(name: string, variables: Record<string, string>) {
  const template = await readTemplate(new URL(`${name}.yaml`, EXAMPLES))
  const env = serverEnv(template, folder, { SERVER_PORT: String(port), ...variables })
  await install(template, folder, env)
  return { template, env }
}

async function start(template: NewTemplate, env: Record<string, string>): Promise<GameProcess> {
  game = new GameProcess(template, folder, env)
  await game.line(template.startupDetection.done[0]?.value ?? '')
  return game
}

const address = () => ({ host: '127.0.0.1', port })

describe.skipIf(!existsSync('/usr/games/openttd'))(
  `OpenTTD${skippedUnless(existsSync('/usr/games/openttd'), '/usr/games/openttd')}`,
  () => {
    test('serves under the name of its variable, answers a console command, and keeps its map over quit', async () => {
      const { template, env } = await prepare('openttd', { SERVER_NAME: HOSTILE, START_YEAR: '1961' })
      const first = await start(template, env)
      await probeOpenttdUdp(address())
      expect((await probeOpenttdTcp(address())).texts.join(' ')).toContain("It's $(id) `id` & %s")
      expect(await first.ask('getdate', 'Date:')).toContain('1961')
      expect(await first.ask('nosuchcmd', 'nosuchcmd')).toContain('not found')
      first.type(template.stopCommand)
      expect(await first.exited).toEqual({ code: 0, signal: null })

      const second = await start(template, { ...env, SERVER_NAME: 'Renamed', START_YEAR: '2000' })
      expect((await probeOpenttdTcp(address())).texts).toContain('Renamed')
      expect(await second.ask('getdate', 'Date:')).toContain('1961')
      second.type(template.stopCommand)
      expect(await second.exited).toEqual({ code: 0, signal: null })
    })
  },
)

describe.skipIf(!existsSync('/usr/games/freeciv-server'))(
  `Freeciv${skippedUnless(existsSync('/usr/games/freeciv-server'), '/usr/games/freeciv-server')}`,
  () => {
    test('lets a player join, answers a console command, and goes on with a saved game', async () => {
      const { template, env } = await prepare('freeciv', { AI_FILL: '2', RULESET: 'classic' })
      const first = await start(template, env)
      expect(await probeFreeciv(address())).toMatchObject({
        mayJoin: true,
        message: expect.stringContaining('Welcome'),
      })
      await first.ask('set aifill 3', "'aifill' has been set to 3")
      const saved = await first.ask('save mine', 'Game saved as')
      first.type(template.stopCommand)
      expect(await first.exited).toEqual({ code: 0, signal: null })

      const file = /saves\/(\S+?)\.?$/.exec(saved)?.[1] ?? ''
      const second = await start(template, { ...env, SAVEGAME: file })
      second.type(template.stopCommand)
      expect(await second.exited).toEqual({ code: 0, signal: null })
      expect(second.lines.filter((line) => /cannot|error|unknown/i.test(line))).toEqual([])
    })
  },
)

describe.skipIf(!existsSync('/usr/lib/minetest/minetestserver'))(
  `Luanti${skippedUnless(existsSync('/usr/lib/minetest/minetestserver'), '/usr/lib/minetest/minetestserver')}`,
  () => {
    test('gives a player a peer id over UDP, stops by signal with exit 0, and keeps settings of its owner', async () => {
      const { template, env } = await prepare('luanti', { SERVER_NAME: HOSTILE, MOTD: 'Hi = there' })
      const first = await start(template, env)
      expect(await probeMinetest(address())).toBeGreaterThan(1)
      await first.idle()
      first.signal(template.sendSignalTo)
      expect(await first.exited).toEqual({ code: 0, signal: null })
      const settings = await readFile(join(folder, 'minetest.conf'), 'utf8')
      expect(settings).toContain(`server_name = ${HOSTILE}\n`)
      expect(settings).toContain('motd = Hi = there\n')

      await install(template, folder, env)
      const second = await start(template, { ...env, MAX_USERS: '7' })
      const changed = await readFile(join(folder, 'minetest.conf'), 'utf8')
      expect(changed).toBe(settings.replace('max_users = 15', 'max_users = 7'))
      await second.idle()
      second.signal('SIGTERM')
      expect(await second.exited).toEqual({ code: 0, signal: null })
    })
  },
)

describe.skipIf(!existsSync('/usr/games/teeworlds-server'))(
  `Teeworlds${skippedUnless(existsSync('/usr/games/teeworlds-server'), '/usr/games/teeworlds-server')}`,
  () => {
    test('tells its name and map over UDP, prints no password, and ends by the signal of its template', async () => {
      const { template, env } = await prepare('teeworlds', { SERVER_NAME: HOSTILE, MAP: 'ctf1', GAME_TYPE: 'ctf' })
      const first = await start(template, env)
      expect(await probeTeeworlds(address())).toEqual({ version: '0.7.5', name: HOSTILE, map: 'ctf1', gameType: 'CTF' })
      first.signal(template.sendSignalTo)
      expect(await first.exited).toEqual({ code: null, signal: template.sendSignalTo })
      const password = /sv_rcon_password (\S+)/.exec(await readFile(join(folder, 'panel.cfg'), 'utf8'))?.[1] ?? ''
      expect(password.length).toBeGreaterThan(10)
      expect(first.lines.filter((line) => line.includes(password) || /rcon password/i.test(line))).toEqual([])
    })
  },
)
