// @module-tag long
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Stage, until } from '../daemon/servers/stage.ts'
import { ROOT } from '../module-graph.ts'
import { runPanel } from '../run-panel.ts'

// What docs/templates.md tells somebody who has never written a template, as it is printed.

const [, section = ''] =
  /^## From nothing to a running game\n(.*?)^## /ms.exec(readFileSync(join(ROOT, 'docs/templates.md'), 'utf8')) ?? []
const block = (language: string): string =>
  new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'ms').exec(section)?.[1] ?? ''

let stage: Stage
let dir: string
beforeAll(async () => {
  stage = await Stage.open({ agent: true })
  dir = await mkdtemp(join(tmpdir(), 'panel-first-template-'))
  await writeFile(join(dir, 'talk.yaml'), block('yaml'))
})
afterAll(async () => {
  await stage.close()
  await rm(dir, { recursive: true })
})

it('the page about templates leads from nothing to a running game that somebody has joined', async () => {
  const env = { HOME: stage.panel.home, PANEL_URL: stage.panel.url, PANEL_TOKEN: stage.panel.adminToken }
  const lines = block('sh')
    .split('\n')
    .map((line) => line.replace(/ +#.*$/, ''))
    .filter((line) => line !== '')
  expect(lines).toHaveLength(6)
  const said = new Map<string, string>()
  for (const line of lines) {
    const [panel, ...args] = line.split(' ').map((word) => (word === 'talk.yaml' ? join(dir, word) : word))
    expect(panel).toBe('panel')
    const ran = await runPanel(args, { env })
    expect(ran.code, `${line}\n${ran.stderr}`).toBe(0)
    said.set(args.slice(0, 2).join(' '), ran.stdout + ran.stderr)
  }
  expect(said.get('templates test')).toContain('MOTD')
  const { stdout } = await runPanel(['servers', 'view', 'lounge', '-o', 'json'], { env })
  const server = JSON.parse(stdout)
  expect(server).toMatchObject({ status: 'running', primaryPort: 4400 })
  const person = connect(server.primaryPort, server.primaryIp === '0.0.0.0' ? '127.0.0.1' : server.primaryIp)
  const heard: string[] = []
  createInterface({ input: person }).on('line', (line) => heard.push(line))
  try {
    await until('the message of the day', async () => (heard.includes('hello') ? true : undefined))
    person.write('hi all\n')
    const log = async () => (await runPanel(['console', 'logs', 'lounge', '--tail', '20'], { env })).stdout
    await until('the line in the console', async () => ((await log()).includes('hi all') ? true : undefined))
    expect(await log()).toContain('panel: hello')
  } finally {
    person.destroy()
  }
  expect((await runPanel(['servers', 'stop', 'lounge', '--wait'], { env })).code).toBe(0)
})
