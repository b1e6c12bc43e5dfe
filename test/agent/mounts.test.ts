import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerMount } from '../../src/shared/protocol/mounts.ts'
import { skippedUnless } from '../skips.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'
import { canMount } from './can-mount.ts'

const isRoot = process.getuid?.() === 0
const runs = isRoot && canMount()
const NO_MOUNTS = skippedUnless(runs, 'root and private mounts')

let stage: AgentStage
/** A folder in which nobody else may rename; `/tmp` is open to all. */
let machine: string
const used = new Set<string>()

const GAME = `
cat maps/readme
echo mine > maps/written && echo "maps written" || echo "maps refused"
echo mine > shared/written && echo "shared written" || echo "shared refused"
echo ready
read -r line
`

function mount(source: string, target: string, readOnly = false): ServerMount {
  return { source: source.startsWith('/') ? source : join(machine, source), target, readOnly }
}

async function start(name: string, mounts: readonly ServerMount[]) {
  const id = `srv_${name}`
  used.add(id)
  const spec = gameSpec(id, 1, { startup: GAME, mounts: [...mounts] })
  return { id, done: await stage.peer.order(id, 1, { op: 'start', spec }) }
}

describe.skipIf(!runs)(`the mounts of a process${NO_MOUNTS}`, () => {
  beforeAll(async () => {
    machine = mkdtempSync('/srv/panel-mounts-')
    chmodSync(machine, 0o755)
    for (const name of ['maps', 'shared', 'secret', 'open', 'open/inner']) mkdirSync(join(machine, name))
    chmodSync(join(machine, 'shared'), 0o777)
    chmodSync(join(machine, 'open'), 0o777)
    writeFileSync(join(machine, 'maps', 'readme'), 'a map of the node\n')
    writeFileSync(join(machine, 'secret', 'readme'), 'a secret of the node\n')
    symlinkSync(join(machine, 'secret'), join(machine, 'maps', 'way-out'))
    stage = await AgentStage.enter()
    stage.mounts = [
      { source: join(machine, 'maps'), readOnly: true },
      { source: join(machine, 'shared'), readOnly: false },
      { source: join(machine, 'open'), readOnly: false },
      { source: '/var', readOnly: false },
      { source: '/run', readOnly: false },
      { source: stage.dataDir, readOnly: false },
    ]
    await stage.startAgent()
  }, 60_000)

  afterAll(async () => {
    await stage?.leave([...used])
    rmSync(machine, { recursive: true, force: true })
  }, 60_000)

  it('are in its folder, read only where that is said, and nothing of them is on the machine or goes with its files', async () => {
    const { id, done } = await start('mounted', [mount('maps', 'maps', true), mount('shared', 'shared')])
    expect(done).toMatchObject({ ok: true })
    await stage.peer.report(id, 'running', (report) => report.power === 'running')
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
    await stage.peer.until('what it found', () =>
      stage.peer.lines(id).some(([, , , text]) => text === 'shared written'),
    )
    const said = stage.peer.lines(id).map(([, , , text]) => text)
    expect(said).toContain('a map of the node')
    expect(said).toContain('maps refused')
    expect(existsSync(join(stage.dataDir, 'servers', id, 'maps', 'readme'))).toBe(false)
    expect(await stage.peer.order(id, 2, { op: 'delete', keepFiles: false })).toMatchObject({ ok: true })
    expect(readFileSync(join(machine, 'shared', 'written'), 'utf8')).toBe('mine\n')
    expect(existsSync(join(machine, 'maps', 'readme'))).toBe(true)
  })

  it.each([
    { title: 'a folder that is not allowed', source: 'secret', why: 'not in a folder that its agent allows' },
    {
      title: 'a link that leads out of what is allowed',
      source: 'maps/way-out',
      why: 'not in a folder that its agent allows',
    },
    { title: 'a folder that is written to and may only be read', source: 'maps', why: 'read only (:ro)' },
    { title: 'a folder that others could replace', source: 'open/inner', why: 'can be changed by others' },
    { title: 'a folder that is not there', source: 'gone', why: 'no such folder' },
    { title: 'the socket of an engine', source: '/run/docker.sock', why: 'refused by this node' },
    { title: 'a folder that holds what is never given', source: '/run', why: 'never given to a server' },
    { title: 'a file', source: 'maps/readme', why: 'it is no folder' },
  ])('refuses $title', async ({ title, source, why }) => {
    const { id, done } = await start(title.replaceAll(' ', '-'), [mount(source, 'maps')])
    expect(done.ok).toBe(false)
    expect(done.error?.message).toContain(why)
    expect(stage.peer.reports(id).at(-1)?.power).toBe('offline')
  })

  it('says that one is refused as soon as it is asked for', async () => {
    const id = 'srv_early'
    used.add(id)
    await stage.peer.order(id, 1, { op: 'apply', spec: gameSpec(id, 1, { startup: GAME }) })
    const spec = gameSpec(id, 2, { startup: GAME, mounts: [mount('secret', 'maps')] })
    const reason = expect.stringContaining('not in a folder that its agent allows')
    const done = await stage.peer.order(id, 2, { op: 'apply', spec })
    expect(done).toMatchObject({ ok: true, result: { appliesAt: 'next-start', reason } })
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
    await stage.peer.until('the line that says so', () =>
      stage.peer.lines(id).some(([, , , text]) => text.includes('the next start fails until this is changed')),
    )
  })

  it('refuses the folders of the agent, and a place that only a container has', async () => {
    const own = await start('own', [mount(join(stage.dataDir, 'state'), 'maps')])
    expect(own.done.error?.message).toContain('never given to a server')
    const outside = await start('outside', [mount('shared', '/data/shared')])
    expect(outside.done.error?.message).toContain('needs a container')
  })

  it.each([
    ['up and into another folder', 'maps/../secret'],
    ['up from inside', 'maps/inner/../../secret'],
    ['around to itself', 'maps/../maps'],
  ])('refuses a path that goes %s, whatever the daemon says', async (title, source) => {
    const wrong = { source: `${machine}/${source}`, target: 'maps', readOnly: true }
    const { id, done } = await start(`dots-${title.replaceAll(' ', '-')}`, [wrong])
    expect(done.ok).toBe(false)
    expect(done.error?.message).toMatch(/\.\./)
    expect(stage.peer.reports(id).at(-1)?.power).not.toBe('running')
  })

  it('looks at where a link leads at each start', async () => {
    const link = join(machine, 'link')
    symlinkSync(join(machine, 'maps'), link)
    const { id, done } = await start('relinked', [mount('link', 'maps', true)])
    expect(done).toMatchObject({ ok: true })
    await stage.peer.order(id, 2, { op: 'kill' })
    symlinkSync(join(machine, 'secret'), `${link}.new`)
    renameSync(`${link}.new`, link)
    const spec = gameSpec(id, 3, { startup: GAME, mounts: [mount('link', 'maps', true)] })
    const again = await stage.peer.order(id, 3, { op: 'start', spec })
    expect(again.error?.message).toContain('not in a folder that its agent allows')
  })

  it('does not follow a link that a game has put where a mount is to lie', async () => {
    const id = 'srv_link'
    used.add(id)
    const folder = join(stage.dataDir, 'servers', id)
    mkdirSync(folder)
    symlinkSync(join(machine, 'secret'), join(folder, 'maps'))
    const { done } = await start('link', [mount('shared', 'maps/inner')])
    expect(done.ok).toBe(false)
    expect(existsSync(join(machine, 'secret', 'inner'))).toBe(false)
  })
})
