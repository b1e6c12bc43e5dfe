// @module-tag long
import { existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SplitPanel } from '../e2e/split-panel.ts'
import { gone, until, userOf } from '../e2e/wait.ts'
import { CATALOGUE_GAMES } from '../games/catalogue-games.ts'
import { answerOf, isSilent } from '../games/raw-probe.ts'
import { quietPort } from '../ports.ts'
import { skippedUnless } from '../skips.ts'

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

describe.each(CATALOGUE_GAMES)('$name of the catalogue', (game) => {
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
