// @module-tag long
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listTemplates, updateTemplate } from '../../src/shared/api/templates.ts'
import { EngineStage, noEngine, TestBridge } from '../agent/docker/engine-stage.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { gone, until } from '../e2e/wait.ts'
import { CATALOGUE_GAMES } from '../games/catalogue-games.ts'
import { answerOf, isSilent } from '../games/raw-probe.ts'
import { quietPort } from '../ports.ts'
import { skippedUnless } from '../skips.ts'

const missing = noEngine()
const IMAGE = 'games:1'

/**
 * What an image of a game is made of beside its program. Not among them are OpenArena and Crossfire, whose data is some hundred MB,
 * flying-squid, whose installation needs npm, and Freeciv, which refuses to be installed by root.
 */
const DATA: Readonly<Record<string, readonly string[]>> = {
  armagetron: ['/usr/share/games/armagetronad', '/etc/armagetronad-dedicated'],
  bzflag: [],
  luanti: ['/usr/share/games/minetest'],
  mumble: ['/usr/lib/x86_64-linux-gnu/qt5/plugins/sqldrivers/libqsqlite.so'],
  openttd: ['/usr/share/games/openttd'],
  teeworlds: ['/usr/share/games/teeworlds'],
  wesnoth: [],
}
const GAMES = CATALOGUE_GAMES.filter(({ name }) => DATA[name] !== undefined)
const present = GAMES.filter(({ needs }) => existsSync(needs))

let bridge: TestBridge
let engine: EngineStage
let panel: SplitPanel

describe.skipIf(missing !== undefined)(
  `games of the catalogue in containers${skippedUnless(missing === undefined, missing ?? '')}`,
  () => {
    beforeAll(async () => {
      bridge = new TestBridge()
      engine = await EngineStage.begin(bridge.name)
      const files = present
        .flatMap(({ name, needs }) => [needs, ...(DATA[name] ?? [])])
        .filter((path) => existsSync(path))
      await engine.importImage(IMAGE, 0, files)
      panel = await SplitPanel.enter()
      await panel.killAgent('SIGTERM')
      const folder = join(panel.home, '.config', 'panel')
      mkdirSync(folder, { recursive: true })
      // JSON is YAML as well.
      writeFileSync(
        join(folder, 'agent.yaml'),
        JSON.stringify({ docker: { socket: engine.socket, network: 'bridge' } }),
      )
      await panel.startAgent()
      await until('the node to have an engine', async () => {
        const { runtimes } = await json(['nodes', 'view', 'box'])
        return runtimes.some(({ name, ok }: { name: string; ok: boolean }) => name === 'docker' && ok)
      })
    })

    afterAll(async () => {
      await panel?.leave()
      await engine?.end([])
      bridge?.remove()
    })

    describe.each(GAMES)('$name', (game) => {
      const { name, needs, question, playersMax, ask, exit = { lastExitCode: 0, lastExitSignal: null } } = game
      const server = `my-${name}`

      it.skipIf(!existsSync(needs))(
        `answers its own protocol exactly while it is shown as running, and its players are counted${skippedUnless(existsSync(needs), needs)}`,
        async () => {
          const port = await quietPort()
          const address = { host: '127.0.0.1', port }
          const title = await inContainers(name)
          const where = ['--template', title, '--node', 'box', '--port', String(port), '--disk', '1G']
          expect(await isSilent(address, question)).toBe(true)
          await ok(['servers', 'create', '--name', server, ...where, '--start', '--wait', '--timeout', '60s'])
          const shown = await json(['servers', 'view', server])
          expect(shown).toMatchObject({ status: 'running', runtime: 'docker', crashCount: 0, reason: null })
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
            await leave()
            await players(server, { playersOnline: 0, playersMax })
          }
          await ok(['servers', 'stop', server, '--wait', '--timeout', '60s'])
          expect(await json(['servers', 'view', server])).toMatchObject({ status: 'stopped', crashCount: 0, ...exit })
          await gone(shown.pid)
          expect(await isSilent(address, question)).toBe(true)
        },
      )
    })

    /** Installs a game's template and gives it the image; resolves with its name. */
    async function inContainers(name: string): Promise<string> {
      await ok(['templates', 'install', name])
      const catalog: { name: string; title: string }[] = await json(['templates', 'catalog'])
      const title = catalog.find((one) => one.name === name)?.title ?? ''
      const all = await panel.client.call(listTemplates, { query: { limit: 100 } })
      const templateId = all.find((template) => template.name === title)?.id
      if (templateId === undefined) throw new Error(`no template ${title}`)
      await panel.client.call(updateTemplate, {
        params: { templateId },
        body: { runtimes: ['docker'], image: IMAGE, installImage: IMAGE },
      })
      return title
    }
  },
)

async function ok(args: readonly string[]): Promise<string> {
  const ran = await panel.run(args)
  expect(ran, `${args.join(' ')}\n${ran.stderr}`).toMatchObject({ code: 0 })
  return ran.stdout
}

async function json(args: readonly string[]) {
  return JSON.parse(await ok([...args, '-o', 'json']))
}

/** Waits until the view says so: the agent asks every 15 s, and reports as often. */
async function players(server: string, wanted: Readonly<Record<string, number | null>>): Promise<void> {
  await until(
    `${server} to have ${JSON.stringify(wanted)}`,
    async () => {
      const shown = await json(['servers', 'view', server])
      return Object.entries(wanted).every(([field, value]) => shown[field] === value)
    },
    60_000,
  )
}
