import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PACKET, PacketReader, packetOf } from '../../src/agent/console/rcon/packets.ts'
import type { ConsoleLine } from '../../src/shared/protocol/console.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { quietPort } from '../ports.ts'
import { DIST } from '../run-panel.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'

const PASSWORD = 'correct-horse'
/** A game sees neither this repository nor the build: it gets its program as a variable. */
const PROGRAM = readFileSync(join(DIST, 'test', 'agent', 'rcon-game.js'), 'utf8')

let stage: AgentStage
const used: string[] = []

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave(used)
}, 60_000)

interface Wanted {
  /** What the game is started as. */
  readonly game?: string
  readonly protocol?: 'source' | 'minecraft'
  readonly gamePassword?: string
  readonly change?: Partial<ServerSpec>
}

async function start(name: string, { game, protocol = 'source', gamePassword, change }: Wanted = {}): Promise<string> {
  const id = `srv_${name}`
  used.push(id)
  const spec = gameSpec(id, 1, {
    startup: `printf %s "$PROGRAM" > game.mjs; exec "$PANEL_NODE" game.mjs ${game ?? protocol} {{RCON_PORT}} {{GAME_PASSWORD}}`,
    env: {
      PROGRAM,
      RCON_PORT: String(await quietPort()),
      RCON_PASSWORD: PASSWORD,
      GAME_PASSWORD: gamePassword ?? PASSWORD,
    },
    console: { logMb: 8, input: { kind: 'rcon', protocol, port: 'RCON_PORT', passwordVariable: 'RCON_PASSWORD' } },
    restart: { policy: 'never', maxCrashes: 5 },
    ...change,
  })
  expect(await stage.peer.order(id, 1, { op: 'start', spec })).toMatchObject({ ok: true })
  await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 1000 })
  await stage.peer.report(id, 'running', ({ power }) => power === 'running')
  return id
}

async function send(id: string, ...lines: string[]) {
  return (await stage.peer.request({ op: 'console.input', serverId: id, lines })).error
}

function texts(id: string, stream: ConsoleLine[2] = 'stdout'): string[] {
  return stage.peer.lines(id).flatMap(([, , from, text]) => (from === stream ? [text] : []))
}

async function says(id: string, text: string): Promise<void> {
  await stage.peer.until(`the line ${text}`, () => texts(id).includes(text))
}

function connections(id: string): number {
  return texts(id).filter((text) => text === 'connected').length
}

describe('a console by RCON', () => {
  it.each([
    ['source', 'source'],
    ['source', 'source-plain'],
    ['minecraft', 'minecraft'],
  ] as const)(
    'of %s (%s) has typed lines with their answers, over one connection, long ones in parts',
    async (protocol, game) => {
      const id = await start(game, { protocol, game })
      expect(await send(id, 'list', 'silent', 'slow')).toBeNull()
      await says(id, 'did slow')
      expect(texts(id, 'stdin')).toEqual(['list', 'silent', 'slow'])
      expect(await send(id, 'long 2000')).toBeNull()
      await says(id, 'line 1999')
      expect(texts(id).filter((text) => text.startsWith('line '))).toEqual(
        Array.from({ length: 2000 }, (_, index) => `line ${index}`),
      )
      for (const size of [4095, 4096, 8192]) expect(await send(id, `exact ${size}`)).toBeNull()
      await stage.peer.until('the last answer', () => texts(id).join('').split('x').length - 1 === 4095 + 4096 + 8192)
      expect(connections(id)).toBe(1)
      expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
      const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
      expect(lastExit).toMatchObject({ code: 0, expected: true })
      expect(texts(id, 'system').join()).not.toContain('SIGTERM')
    },
  )

  it('never shows its password, and no colours of Minecraft', async () => {
    const id = await start('secret', { protocol: 'minecraft' })
    expect(await send(id, 'password', `say ${PASSWORD}`, 'colour')).toBeNull()
    await says(id, 'green and plain')
    expect(texts(id)).toEqual(expect.arrayContaining(['ready with ********', 'it is ********', 'did say ********']))
    expect(texts(id, 'stdin')).toContain('say ********')
    expect(JSON.stringify(stage.peer.lines(id))).not.toContain(PASSWORD)
    expect(stage.output).not.toContain(PASSWORD)
  })

  it('says that the password is refused, and tries no more for a while', { tags: ['long'] }, async () => {
    const id = await start('refused', { gamePassword: 'another-one' })
    const refused = await send(id, 'list')
    expect(refused).toMatchObject({ code: 'RCON_FAILED', message: expect.stringContaining('variable RCON_PASSWORD') })
    expect(refused?.message).not.toContain(PASSWORD)
    const again = await send(id, 'list')
    expect(again?.message).toMatch(/the next attempt is possible in 1 s$/)
    await says(id, 'connected')
    expect(connections(id)).toBe(1)
  })

  it('connects again when the connection was lost, and says what is not known of the command', {
    tags: ['long'],
  }, async () => {
    // Of a game that gives no empty packet back nobody knows whether it has done what was sent.
    const id = await start('lost', { game: 'source-plain' })
    expect(await send(id, 'list')).toBeNull()
    expect(await send(id, 'drop')).toMatchObject({
      code: 'RCON_FAILED',
      message: expect.stringContaining('may have been'),
    })
    expect(await send(id, 'garbage')).toMatchObject({ message: expect.stringContaining('does not speak RCON') })
    expect(await send(id, 'hang')).toMatchObject({ message: expect.stringContaining('no answer came in 4 s') })
    expect(await send(id, 'back')).toBeNull()
    await says(id, 'did back')
    expect(connections(id)).toBe(4)
  })

  it('cuts an answer without an end', async () => {
    const id = await start('endless')
    expect(await send(id, 'endless')).toBeNull()
    await stage.peer.until('the remark', () => texts(id, 'system').some((text) => text.includes('longer than 1 MiB')))
    expect(await send(id, 'list')).toBeNull()
    await says(id, 'did list')
  })

  it.each(['source', 'minecraft'] as const)(
    'of %s reads no flood: neither for a command nor between two',
    async (protocol) => {
      const id = await start(`flood-${protocol}`, { protocol, game: protocol === 'source' ? 'source-plain' : protocol })
      const refused = { message: expect.stringContaining('it sends much more than') }
      expect(await send(id, 'flood others')).toMatchObject(refused)
      const closed = (): number => texts(id).filter((text) => text === 'flood closed').length
      // The first packet is all of a short answer of Minecraft.
      if (protocol === 'minecraft') expect(await send(id, 'flood empty')).toBeNull()
      else expect(await send(id, 'flood empty')).toMatchObject(refused)
      // What comes behind that answer ends the connection; a command before that would be sent into the flood.
      await stage.peer.until('the end of the second flood', () => closed() === 2)
      expect(await send(id, 'flood later')).toBeNull()
      await stage.peer.until('the end of the last flood', () => closed() === 3)
      expect(await send(id, 'list')).toBeNull()
      await says(id, 'did list')
    },
  )

  it('sends no command whose sender has been answered, and a stop before those that wait', async () => {
    const id = await start('hanging', { game: 'source-plain' })
    const heard = (): string[] => texts(id, 'stderr').map((text) => text.replace('heard ', ''))
    /** As the daemon asks: it waits for 5 s. */
    const typed = async (line: string) =>
      (await stage.peer.request({ op: 'console.input', serverId: id, lines: [line] }, 5000)).error
    const hanging = ['hang', 'hang', 'hang', 'late 1', 'late 2'].map(typed)
    expect(await Promise.all(hanging)).toEqual([
      expect.objectContaining({ message: expect.stringContaining('no answer came in 4 s') }),
      ...Array.from({ length: 4 }, () => expect.objectContaining({ message: expect.stringContaining('was not sent') })),
    ])
    expect(await typed('back')).toBeNull()
    await stage.peer.until('the last command', () => heard().includes('back'))
    expect(heard()).toEqual(['hang', 'back'])

    const more = [typed('hang'), ...Array.from({ length: 20 }, (_, index) => typed(`more ${index}`))]
    await stage.peer.until('the command that hangs', () => heard().at(-1) === 'hang')
    expect(await typed('one too many')).toMatchObject({ message: 'Too many commands wait for RCON' })
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ code: 0, expected: true })
    for (const error of await Promise.all(more)) expect(error).not.toBeNull()
    await stage.peer.until('the stop command', () => heard().includes('stop'))
    expect(heard()).toEqual(['hang', 'back', 'hang', 'stop'])
  })

  it('that accepts and never says a word holds up neither the senders of commands nor a stop', async () => {
    const id = await start('silent', { game: 'mute' })
    const typed = async (line: string) =>
      (await stage.peer.request({ op: 'console.input', serverId: id, lines: [line] }, 5000)).error
    const errors = Promise.all(['one', 'two', 'three'].map(typed))
    await says(id, 'connected')
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect((await errors)[0]).toMatchObject({ message: 'RCON did not accept the login: no answer came in 4 s' })
    expect(texts(id, 'system').join()).toMatch(/could not be asked to stop \(RCON did not accept the login/)
  })

  it('takes no stop command that it has refused for the reason of a later end', async () => {
    const id = await start('unheard', { game: 'refusing' })
    expect(await send(id, 'stop')).toMatchObject({ code: 'RCON_FAILED' })
    process.kill(stage.peer.reports(id).at(-1)?.pid ?? 0, 'SIGKILL')
    const { lastExit, crash } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ signal: 'SIGKILL', expected: false, cause: 'signal' })
    expect(crash.crashed).toBe(true)
  })

  it('refuses what is too long for it, by its limit', async () => {
    const id = await start('limit')
    expect(await send(id, `say ${'x'.repeat(1442)}`)).toBeNull()
    expect(await send(id, `say ${'x'.repeat(1443)}`)).toMatchObject({
      code: 'BAD_REQUEST',
      message: 'must have at most 1446 bytes, as the game takes it by RCON',
    })
  })

  it('says of an answer that its end did not come', async () => {
    const id = await start('broken', { game: 'source-plain' })
    const remarks = (): string[] => texts(id, 'system').filter((text) => text.startsWith('The answer'))
    expect(await send(id, 'broken off')).toBeNull()
    await stage.peer.until('the first remark', () => remarks().length === 1)
    expect(await send(id, 'trickle')).toBeNull()
    await stage.peer.until('the second remark', () => remarks().length === 2)
    expect(remarks()).toEqual([
      'The answer is not complete: the game has closed the connection',
      'The answer is not complete: no end of it came in 4 s',
    ])
  })

  it('shows any bytes, and cuts long lines within no character', async () => {
    const id = await start('bytes')
    expect(await send(id, 'emoji', 'binary')).toBeNull()
    await says(id, 'a\ufffd\ufffd\u001b[31m\ufffd(\ufffdb')
    const cut = texts(id).filter((text) => text.includes('😀'))
    expect(cut.join('')).toBe(`x${'😀'.repeat(5000)}`)
    expect(cut.length).toBeGreaterThan(1)
  })

  it('gives its password to nobody but a process of the server', async () => {
    const id = await start('absent', { change: { startup: 'echo ready; exec sleep 1000' } })
    expect(await send(id, 'list')).toMatchObject({
      message: expect.stringContaining('does not listen on its RCON port'),
    })
    const other = await start('other')
    const port = stage.peer.reports(other).length > 0 ? await portOf(other) : 0
    const thief = await start('thief', {
      change: {
        startup: 'echo ready; exec sleep 1000',
        console: { logMb: 8, input: { kind: 'rcon', protocol: 'source', port, passwordVariable: 'RCON_PASSWORD' } },
      },
    })
    expect(await send(thief, 'list')).toMatchObject({
      message: expect.stringContaining('does not listen on its RCON port'),
    })
    expect(connections(other)).toBe(0)
  })

  it('gives a game its time to save that closes its RCON when it stops', { tags: ['long'] }, async () => {
    const id = await start('abrupt', { game: 'source-abrupt' })
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ code: 0, expected: true })
    await says(id, 'saved')
    expect(texts(id, 'system').join()).not.toContain('SIGTERM')
  })

  it('stops a game whose RCON does not answer by a signal', { tags: ['long'] }, async () => {
    const id = await start('mute', { game: 'refusing' })
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(texts(id, 'system').join()).toMatch(/could not be asked to stop \(The game refuses the RCON password/)
  })
})

describe('a packet of RCON', () => {
  it('has the bytes of the public description: size from the id on, id, type, two texts that end with NUL', () => {
    const login = packetOf(0, PACKET.login, 'passwrd')
    expect(login.toString('hex')).toBe('110000000000000003000000706173737772640000')
    const command = packetOf(1, PACKET.command, 'echo HLSW: Test')
    expect(command.toString('hex')).toBe('1900000001000000020000006563686f20484c53573a20546573740000')
    // A refused login has the id -1, and comes behind an empty answer of a Source game, in one piece or in several.
    const refused = Buffer.from('0a000000010000000000000000000a000000ffffffff020000000000', 'hex')
    for (const size of [1, 5, refused.length]) {
      const reader = new PacketReader()
      const packets = []
      for (let at = 0; at < refused.length; at += size) packets.push(...reader.push(refused.subarray(at, at + size)))
      expect(packets.map(({ id, type, body }) => [id, type, body.length])).toEqual([
        [1, PACKET.answer, 0],
        [-1, PACKET.loginAnswer, 0],
      ])
    }
  })
})

describe('a game without a console', () => {
  it('is sent nothing, and says why', async () => {
    const id = await start('none', {
      change: {
        startup: 'echo ready; while read -r line; do echo "got $line"; done',
        console: { logMb: 8, input: { kind: 'none' } },
        stop: { type: 'signal', value: 'SIGTERM', timeoutMs: 5000 },
      },
    })
    expect(await send(id, 'hello')).toMatchObject({ code: 'NO_INPUT' })
    await says(id, 'ready')
    expect(texts(id)).toEqual(['ready'])
  })
})

async function portOf(id: string): Promise<number> {
  const { result } = await stage.peer.request({ op: 'orphans.describe', serverId: id })
  return Number((result as { spec: ServerSpec }).spec.env['RCON_PORT'])
}
