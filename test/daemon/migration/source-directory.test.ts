import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DirectorySource } from '../../../src/daemon/features/operations/migration/source/directory.ts'
import { agentErrorToPanelError } from '../../../src/daemon/gateway/agent-errors.ts'
import type { Gateway } from '../../../src/daemon/gateway/gateway.ts'
import { PanelError } from '../../../src/shared/kernel/errors.ts'
import type { InputOf, RequestDefinition, ResultOf } from '../../../src/shared/protocol/define.ts'
import { MigrationStage } from '../../agent/migration/migration-stage.ts'

const signal = new AbortController().signal
const NODE = 'node_test'
let stage: MigrationStage
let isOnline = true

/** As the gateway asks the agent of a node, of which there is one here. */
const gateway: Pick<Gateway, 'request'> = {
  async request<D extends RequestDefinition>(nodeId: string, definition: D, input: InputOf<NoInfer<D>>) {
    if (nodeId !== NODE || !isOnline) throw new PanelError('NODE_OFFLINE', 'The node is not connected')
    const reply = await stage.agent.peer.request({ op: definition.op, ...(input as object) } as never) // checked by the agent
    if (reply.error !== null) throw agentErrorToPanelError(reply.error)
    return definition.result.parse(reply.result) as ResultOf<D>
  },
}

const at = (...names: string[]): string => join(stage.root, ...names)
const opened = (path = stage.root): DirectorySource => new DirectorySource({ nodeId: NODE, path }, gateway)

function writeServer(folder: string, manifest: string): void {
  mkdirSync(at(folder, 'world'), { recursive: true })
  writeFileSync(at(folder, 'panel-server.yaml'), manifest)
  writeFileSync(at(folder, 'world', 'level.dat'), folder)
}

const manifestOf = (n: number, more = ''): string =>
  `name: Server ${n}\ntemplate: Paper\nlimits:\n  memoryMb: 1024\n  diskMb: 0\n  cpu: 1.5\nports: [${25_000 + n}, ${26_000 + n}]\n${more}`

beforeAll(async () => {
  stage = await MigrationStage.enter()
  for (let n = 1; n <= 18; n++) writeServer(`s${String(n).padStart(2, '0')}`, manifestOf(n))
  const variables = 'variables:\n  MOTD: "it\'s"\n  MAX_PLAYERS: 20\n  PVP: true\n'
  writeServer('s02', manifestOf(2, `owner: Anna@Players.Example\ndescription: old\n${variables}`))
  writeServer('s03', manifestOf(3, 'owner: steve\n'))
  writeServer('s04', manifestOf(4, 'owner: steve\n').replace('Paper', 'Quarry'))
  writeServer('broken', 'name: [')
  symlinkSync('/etc', at('elsewhere'))
  for (const byte of [0xfd, 0xfe]) {
    const folder = Buffer.concat([Buffer.from(`${stage.root}/`), Buffer.from([byte])])
    mkdirSync(folder)
    writeFileSync(Buffer.concat([folder, Buffer.from('/panel-server.yaml')]), manifestOf(19))
  }
})
afterAll(() => stage.leave())

describe('a folder of a node with servers', () => {
  it('has those that say what they are, and names the others with what is wrong', async () => {
    const { items, unreadable } = await opened().servers(signal)
    expect(items.map(({ id }) => id)).toEqual(
      Array.from({ length: 18 }, (_, n) => `s${String(n + 1).padStart(2, '0')}`),
    )
    const noText = { kind: 'server', id: null, name: '\ufffd', reason: expect.stringMatching(/not UTF-8/) }
    expect(unreadable).toEqual([
      expect.objectContaining({ kind: 'server', id: 'broken', reason: expect.stringMatching(/panel-server\.yaml/) }),
      expect.objectContaining({ kind: 'server', id: 'elsewhere', reason: expect.stringMatching(/link/) }),
      expect.objectContaining(noText),
      expect.objectContaining(noText),
    ])
    expect(items[1]).toMatchObject({
      name: 'Server 2',
      description: 'old',
      eggId: 'Paper',
      ownerId: 'anna@players.example',
      limits: { memoryMb: 1024, diskMb: 0, swapMb: 0, cpuPercent: 150 },
      environment: { MOTD: "it's", MAX_PLAYERS: '20', PVP: 'true' },
      allocations: [
        { port: 25_002, isPrimary: true },
        { port: 26_002, isPrimary: false },
      ],
      state: 'ready',
      isInstalled: true,
    })
    expect(items[0]?.ownerId).toBe('')
    expect(new Set(items.map(({ uuid }) => uuid)).size).toBe(18)
  })

  it('is the same source however it is written, and another one elsewhere', async () => {
    const source = opened(`${stage.root}//./`)
    expect(source.fingerprint).toBe(opened().fingerprint)
    expect(opened(at('s01')).fingerprint).not.toBe(source.fingerprint)
    const uuids = async (of: DirectorySource) => (await of.servers(signal)).items.map(({ uuid }) => uuid)
    expect(await uuids(source)).toEqual(await uuids(opened()))
    expect(source.directory).toEqual({ nodeId: NODE, path: stage.root })
    expect(source.files).toBeNull()
  })

  it('names templates and owners that have to be here', async () => {
    const source = opened()
    const eggs = (await source.eggs(signal)).items
    expect(eggs.map(({ id, name, mustExist }) => [id, name, mustExist])).toEqual([
      ['Paper', 'Paper', true],
      ['Quarry', 'Quarry', true],
    ])
    const users = (await source.users(signal)).items
    expect(users.map(({ id, email, mustExist }) => [id, email, mustExist])).toEqual([
      ['anna@players.example', 'anna@players.example', true],
      ['steve', 'steve', true],
    ])
    expect((await source.nodes()).items).toMatchObject([{ id: NODE, origin: '' }])
    expect(await source.probe(signal)).toMatchObject({ flavor: 'directory', missing: [], counts: { server: 22 } })
  })

  it('answers one server as it is now, and none that is gone or broken', async () => {
    const source = opened()
    const fresh = await source.server('s07', signal)
    expect(fresh).toMatchObject({ id: 's07', name: 'Server 7' })
    expect(fresh?.filesFingerprint).toMatch(/^[0-9a-f]{64}$/)
    expect((await source.server('s07', signal))?.filesFingerprint).toBe(fresh?.filesFingerprint)
    writeFileSync(at('s07', 'world', 'more.dat'), 'more')
    expect((await source.server('s07', signal))?.filesFingerprint).not.toBe(fresh?.filesFingerprint)
    writeServer('s07', manifestOf(7).replace('Server 7', 'Renamed'))
    writeServer('s06b', manifestOf(60))
    expect(await source.server('s07', signal)).toMatchObject({ id: 's07', uuid: fresh?.uuid, name: 'Renamed' })
    expect(await source.server('s01', signal)).toMatchObject({ id: 's01' })
    rmSync(at('s06b'), { recursive: true })
    expect(await source.server('s06b', signal)).toBeUndefined()
    expect(await source.server('broken', signal)).toBeUndefined()
    expect(await source.server('../etc', signal)).toBeUndefined()
  })

  it('is refused beyond what the owner of the machine allows, and says what to do', async () => {
    const failing = async (source: () => DirectorySource) =>
      await Promise.resolve()
        .then(() => source().servers(signal))
        .then(
          () => expect.fail('nothing failed'),
          (error: unknown) => error,
        )
    const outside = await failing(() => opened('/etc'))
    expect(outside).toMatchObject({
      problem: 'denied',
      message: expect.stringMatching(/migration\.roots.*agent\.yaml/),
    })
    expect(await failing(() => opened(at('none')))).toMatchObject({ problem: 'missing', isTransient: false })
    expect(await failing(() => opened(`${stage.root}/../..`))).toMatchObject({ problem: 'rejected' })
    expect(await failing(() => opened('relative'))).toMatchObject({ problem: 'rejected' })
    isOnline = false
    try {
      expect(await failing(opened)).toMatchObject({ problem: 'unreachable', isTransient: true })
    } finally {
      isOnline = true
    }
  })
})
