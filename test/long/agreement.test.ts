// @module-tag long
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openPane, type Pane } from '../cli/tui/pane.ts'
import { Stage, until } from '../daemon/servers/stage.ts'
import { DIST, runPanel } from '../run-panel.ts'

/** As Minecraft does: writes its eula.txt, says so and ends cleanly; runs only where somebody has agreed. */
const GAME = `
if ! grep -q '^eula=true' eula.txt 2>/dev/null; then
  printf '#By changing the setting below to TRUE you agree to our EULA (https://example.test/eula).\\neula=false\\n' > eula.txt
  echo 'You need to agree to the EULA in order to run the server.'
  exit 0
fi
echo 'Done (1.0s)!'
while read -r line; do echo "said: $line"; [ "$line" = stop ] && exit 0; done
`

let stage: Stage
let pane: Pane | undefined
beforeAll(async () => {
  stage = await Stage.open({ agent: true })
})
afterAll(async () => {
  await pane?.close()
  await stage.close()
})

const environment = () => ({ HOME: stage.panel.home, PANEL_URL: stage.panel.url })

async function run(exit: number, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const ran = await runPanel(args, { env: { ...environment(), PANEL_TOKEN: stage.panel.adminToken } })
  expect(ran.code, `panel ${args.join(' ')}: ${ran.stderr}`).toBe(exit)
  return ran
}

async function game(name: string): Promise<string> {
  const template = await stage.template({
    startup: GAME,
    stopCommand: 'stop',
    startupDetection: { done: [{ kind: 'contains', value: 'Done' }], stripAnsi: true },
    eula: { file: 'eula.txt', url: 'https://example.test/eula' },
  })
  const { id } = await stage.create(template, stage.here, { name })
  await stage.status(id, 'stopped')
  return id
}

const eulaOf = (id: string): Promise<string> =>
  readFile(join(stage.panel.dataDir, 'agent', 'servers', id, 'eula.txt'), 'utf8')

it('a game that asks for its agreement is started by the command line, which says each time what to do', async () => {
  const id = await game('terminal')
  const first = await run(11, 'servers', 'start', 'terminal', '--wait', '--timeout', '30s')
  expect(first.stderr).toContain('panel servers eula accept terminal')
  expect((await stage.get(id)).status).toBe('stopped')
  const second = await run(0, 'servers', 'start', 'terminal')
  expect(second.stderr).toContain('the game of terminal asks for an agreement before it runs')
  const shown = await run(2, 'servers', 'eula', 'accept', 'terminal')
  expect(shown.stderr).toContain('https://example.test/eula')
  expect(await eulaOf(id)).toContain('eula=false')
  await run(0, 'servers', 'eula', 'accept', 'terminal', '--yes')
  expect(await eulaOf(id)).toContain('eula=true')
  await run(0, 'servers', 'start', 'terminal', '--wait')
  await run(0, 'servers', 'stop', 'terminal', '--wait')
})

it('the same on the console screen: the agreement is read, accepted by a word, and the server is started', async () => {
  const id = await game('screen')
  pane = await openPane(100, 30, { ...environment(), PANEL_TOKEN: stage.panel.adminToken })
  await pane.text(`clear; node ${join(DIST, 'bin', 'panel.js')} console attach screen`)
  await pane.keys('Enter')
  await pane.shows('LIVE', 30_000)
  await pane.keys('F5')
  await pane.shows('s start')
  await pane.keys('s')
  const asked = await pane.shows('The game of screen asks for an agreement', 30_000)
  expect(asked).toContain('https://example.test/eula')
  await pane.text('say hi')
  await pane.keys('Enter')
  await pane.shows('nothing is answered: type accept or decline')
  expect(await eulaOf(id)).toContain('eula=false')
  await pane.keys('Escape')
  await pane.shows('the game asks for an agreement · F7 shows it')
  await pane.keys('F7')
  await pane.shows('type accept or decline')
  await pane.text('accept')
  await pane.keys('Enter')
  await pane.shows('✓ the agreement is accepted: F5 starts the server')
  expect(await eulaOf(id)).toContain('eula=true')
  await pane.until((now) => !now.includes('F7 shows it'), 'no agreement')
  await pane.keys('F5')
  await pane.shows('s start')
  await pane.keys('s')
  await pane.shows('RUNNING', 30_000)
  await pane.text('hello')
  await pane.keys('Enter')
  await pane.shows('said: hello')
  await pane.keys('C-]')
  await pane.shows('READY>')
})

it('who may read the console alone is shown the agreement, and one that somebody else has accepted goes away', async () => {
  const id = await game('reader')
  const reader = await stage.person(['server.read', 'console.read'])
  await pane?.close()
  pane = await openPane(100, 30, { ...environment(), PANEL_TOKEN: reader.token })
  await pane.text(`clear; node ${join(DIST, 'bin', 'panel.js')} console attach ${id}`)
  await pane.keys('Enter')
  await pane.shows('LIVE', 30_000)
  await run(0, 'servers', 'start', 'reader')
  const shown = await pane.shows('you may not answer it: that needs the permission server.start', 30_000)
  expect(shown).toContain('https://example.test/eula')
  await pane.text('accept')
  await pane.keys('Enter')
  await until('that it still waits', async () => ((await stage.get(id)).eula?.state === 'pending' ? true : undefined))
  await run(0, 'servers', 'eula', 'accept', 'reader', '--yes')
  await pane.until((now) => !now.includes('The game of reader'), 'no agreement', 30_000)
})
