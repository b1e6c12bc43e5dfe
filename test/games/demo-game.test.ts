import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { NewTemplate } from '../../src/shared/api/template-fields.ts'
import { skippedUnless } from '../skips.ts'
import { GameProcess, install, makeServerFolder, serverEnv } from './game-process.ts'
import { type Person, play, visit } from './person.ts'
import { type GameAddress, queryDemo } from './probe.ts'
import { readStarter } from './starter-template.ts'

const isRoot = process.getuid?.() === 0
const NO_ROOT = skippedUnless(isRoot, 'root')

const LOBBY = new URL('../../templates/demo/lobby.mjs', import.meta.url).href

let template: NewTemplate
let folder: string
let games: GameProcess[]

beforeEach(async () => {
  template = await readStarter('demo')
  folder = await makeServerFolder()
  games = []
})

afterEach(async () => {
  for (const game of games) await game.dispose()
  await rm(folder, { recursive: true })
})

function launch(env: Record<string, string>): GameProcess {
  const game = new GameProcess(template, folder, env)
  games.push(game)
  return game
}

/** Installs and starts the game on a port that the system chooses; resolves when it is ready. */
async function startGame(
  variables: Record<string, string> = {},
): Promise<{ game: GameProcess; gameAddress: GameAddress }> {
  const env = serverEnv(template, folder, { SERVER_PORT: '0', ...variables })
  await install(template, folder, env)
  const game = launch(env)
  const ready = await game.line(template.startupDetection.done[0]?.value ?? '')
  return { game, gameAddress: { host: '127.0.0.1', port: Number(/:(\d+)$/.exec(ready)?.[1]) } }
}

async function readScores(): Promise<unknown> {
  return JSON.parse(await readFile(join(folder, 'scores.json'), 'utf8'))
}

/** Reads the field that a new player is shown and walks to the nearest gold: fewer lines than the game lets pass at once. */
async function walkToGold(person: Person): Promise<void> {
  await person.sees('\n 8 ')
  await person.sees('@')
  const rows = [...person.text.matchAll(/^ \d ((?:\S ?){12})$/gm)].map((match) => (match[1] ?? '').split(' '))
  const find = (sign: string) => rows.flatMap((row, y) => row.flatMap((here, x) => (here === sign ? [{ x, y }] : [])))
  const [from] = find('@')
  if (from === undefined) throw new Error(`no player on the field:\n${person.text}`)
  const ways = find('*').map(({ x, y }) => steps(x - from.x, 'w', 'e') + steps(y - from.y, 'n', 's'))
  const shortest = ways.sort((a, b) => a.length - b.length)[0] ?? ''
  person.type(shortest.replace(/./g, '$&\n'))
  await person.sees('gold! You have')
}

function steps(distance: number, back: string, forth: string): string {
  return (distance < 0 ? back : forth).repeat(Math.abs(distance))
}

describe('the demo game', () => {
  test('answers every console command with a line', async () => {
    const { game, gameAddress } = await startGame({ GAME_NAME: 'Grüße', MAX_PLAYERS: '3' })
    const ann = await play(gameAddress, 'Ann')
    await game.ask('help', 'Commands: help, list')
    await game.ask('list', 'Players 1/3: Ann (0 gold)')
    expect(await game.ask('status', 'Grüße: round 1, ')).toContain('players 1/3')
    await game.ask('say good evening', '[server] good evening')
    await ann.sees('[server] good evening')
    await game.ask('round', 'Round 2 begins')
    await game.ask('save', 'Saved 0 scores to scores.json')
    await game.ask('scores', 'Best players: 1. Ann 0')
    await game.ask('kick bob', 'There is no player called bob.')
    await game.ask('kick ann', 'Ann was kicked (0/3)')
    await ann.sees('You were kicked.')
    await game.ask('constructor', 'Unknown command: constructor.')
    await game.ask('say', 'Usage: say TEXT')
    await game.ask('stop', 'Stopping: command stop')
    expect(await game.exited).toEqual({ code: 0, signal: null })
  })

  test('lets several people play, talk, see each other and leave', async () => {
    const { game, gameAddress } = await startGame({ MAX_PLAYERS: '2' })
    const ann = await play(gameAddress, 'Ann')
    const zoe = await play(gameAddress, 'Zoë')
    await ann.sees('Zoë joined.')
    zoe.type('say héllo \u001b[31m€ \u202eworld\n')
    await ann.sees('<Zoë> héllo [31m€ world\n')
    expect(await game.line('<Zoë>')).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO {2}<Zoë> héllo \[31m€ world$/)
    ann.type('who\n')
    await ann.sees('Ann 0, Zoë 0')
    ann.type('look\n')
    await expect.poll(() => ann.text).toMatch(/^ \d .*Z( |$)/m)
    const again = await visit(gameAddress)
    again.type('ann\n')
    await again.sees('ann is playing already.')
    again.type('a b\n')
    await again.sees('A name has 1 to 16 letters')
    again.type('Bob\n')
    await again.sees('The game is full.')
    await again.gone
    expect(await queryDemo(gameAddress)).toMatchObject({ name: 'Gold Rush', players: 2, max: 2, round: 1 })
    zoe.type('quit\n')
    await zoe.sees('Goodbye.')
    await ann.sees('Zoë left.')
    await game.ask('list', 'Players 1/2: Ann')
  })

  test('greets people who wait, and takes a character that arrives in two pieces', async () => {
    const { gameAddress } = await startGame()
    const person = await visit(gameAddress)
    await person.sees('Welcome to Gold Rush. Your name?')
    person.type(Buffer.from([0x5a, 0x6f, 0xc3]))
    await sleep(50) // only so that the two pieces travel apart
    person.type(Buffer.from([0xab, 0x0d, 0x0a]))
    await person.sees('Hello Zoë.')
  })

  test('answers a program that is slow to ask before it greets it, and one that it has greeted already', async () => {
    const { Lobby } = await import(LOBBY)
    let nowMs = 0
    const lobby = new Lobby({ gameName: 'Gold Rush', now: () => nowMs, describe: () => ({ players: 0 }) })
    const server = createServer((socket) => lobby.accept(socket)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const gameAddress = { host: '127.0.0.1', port: (server.address() as AddressInfo).port } // a TCP listener has one
    const arrive = async (): Promise<Person> => {
      const accepted = once(server, 'connection')
      const monitor = await visit(gameAddress)
      await accepted
      return monitor
    }
    const slow = await arrive()
    nowMs = 999
    lobby.tick(nowMs)
    slow.type('QUERY\n')
    await slow.gone
    expect(slow.text).toBe('{"players":0}\n')
    const late = await arrive()
    nowMs += 1000
    lobby.tick(nowMs)
    await late.sees('Welcome to Gold Rush. Your name?\n')
    late.type('QUERY\n')
    await late.gone
    expect(late.text.split('\n')[1]).toBe('{"players":0}')
    server.close()
  })

  test('counts gold, banks it when the round is over, and keeps scores over a restart', async () => {
    const { game, gameAddress } = await startGame({ ROUND_SECONDS: '600' })
    const ann = await play(gameAddress, 'Ann')
    await walkToGold(ann)
    const points = Number(/You have (\d+)/.exec(ann.text)?.[1])
    expect(points).toBeGreaterThan(0)
    await game.line('Ann finds')
    await game.ask('round', 'Round 1 is over: Ann wins')
    await game.ask('save', 'Saved 1 scores')
    game.signal('SIGTERM')
    expect(await game.exited).toEqual({ code: 0, signal: null })
    await ann.sees('The game stops. Goodbye.')
    expect(await readScores()).toMatchObject({ version: 1, round: 2, scores: [{ name: 'Ann' }] })
    expect((await readdir(folder)).filter((name) => name.endsWith('.new'))).toEqual([])
    const next = await startGame()
    expect(await next.game.ask('scores', 'Best players')).toMatch(/1\. Ann [1-9]/)
    await next.game.line('Round 3 begins')
  })

  test('saves the points of the running round on stop, and exits with 1 when it cannot', async () => {
    const first = await startGame()
    const ann = await play(first.gameAddress, 'Ann')
    await walkToGold(ann)
    const points = Number(/You have (\d+)/.exec(ann.text)?.[1])
    first.game.type('stop')
    expect(await first.game.exited).toEqual({ code: 0, signal: null })
    const saved = { version: 1, round: 1, scores: [{ name: 'Ann', points }] }
    expect(await readScores()).toEqual(saved)

    await mkdir(join(folder, 'scores.json.new'))
    const second = await startGame()
    expect(await second.game.ask('save', 'could not be saved')).toContain('ERROR')
    second.game.type('stop')
    expect(await second.game.exited).toEqual({ code: 1, signal: null })
    expect(await readScores()).toEqual(saved)
  })

  test('keeps an unreadable score file under another name and starts', async () => {
    await writeFile(join(folder, 'scores.json'), '{"version":1,"scores":[')
    const { game } = await startGame()
    expect(await game.line('scores.json.broken')).toContain('WARN')
    expect(await readFile(join(folder, 'scores.json.broken'), 'utf8')).toBe('{"version":1,"scores":[')
  })

  test('refuses a taken port with a line that says so and exit code 1', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const address = other.address()
    const port = typeof address === 'object' && address !== null ? String(address.port) : ''
    const env = serverEnv(template, folder, { SERVER_PORT: port })
    await install(template, folder, env)
    const game = launch(env)
    expect(await game.exited).toEqual({ code: 1, signal: null })
    expect(game.lines.join('\n')).toMatch(
      /ERROR Cannot listen on 127\.0\.0\.1:\d+: the port is taken by another program/,
    )
    expect(game.lines.join('\n')).not.toContain('takes players on')
    other.close()
  })

  test('names every wrong setting and exits with 1', async () => {
    const env = serverEnv(template, folder, { SERVER_PORT: '70000', MAX_PLAYERS: 'many' })
    await install(template, folder, env)
    const game = launch(env)
    expect(await game.exited).toEqual({ code: 1, signal: null })
    expect(game.lines.map((line) => line.slice(20))).toEqual([
      'ERROR SERVER_PORT must be a whole number from 0 to 65535',
      'ERROR MAX_PLAYERS must be a whole number from 1 to 64',
    ])
  })

  test('survives endless lines, floods, readers that do not read, and cut connections', async () => {
    const { game, gameAddress } = await startGame()
    const endless = await visit(gameAddress)
    endless.type(Buffer.alloc(1024 * 1024, 0xff))
    await endless.sees('Your line is too long.')
    await endless.gone
    const flood = await play(gameAddress, 'Flood')
    flood.type('look\n'.repeat(5000))
    await flood.sees('Not so fast.')
    await game.line('Flood sent too many lines')
    const deaf = await play(gameAddress, 'Deaf')
    deaf.socket.pause()
    game.type(`${`say ${'x'.repeat(390)}\n`.repeat(15_000)}list`)
    await game.line('Deaf reads too slowly')
    await game.line('Players 0/8')
    const rude = await play(gameAddress, 'Rude')
    rude.socket.resetAndDestroy()
    await game.line('Rude left')
    const crowd = await Promise.all(Array.from({ length: 40 }, () => visit(gameAddress).catch(() => undefined)))
    for (const one of crowd) one?.socket.destroy()
    await game.ask('status', 'players 0/8')
    game.type('x'.repeat(100_000))
    await game.line('That line is too long.')
    game.type('stop')
    expect(await game.exited).toEqual({ code: 0, signal: null })
    expect(game.lines.filter((line) => line.includes('ERROR') || line.includes('    at '))).toEqual([])
  })

  test('goes on when its console input ends', async () => {
    const { game, gameAddress } = await startGame()
    game.closeInput()
    expect(await queryDemo(gameAddress)).toMatchObject({ players: 0 })
    game.signal('SIGINT')
    expect(await game.exited).toEqual({ code: 0, signal: null })
  })
})

describe('the install script of the demo game', () => {
  test('says clearly that the node cannot be run', async () => {
    const env = serverEnv(template, folder, { SERVER_PORT: '0', PANEL_NODE: '/nowhere/node' })
    await expect(install(template, folder, env)).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /User \d+ cannot run \/nowhere\/node: .*not found[\s\S]*Install Node where every user/,
      ),
    })
    const { PANEL_NODE: _, ...without } = env
    await expect(install(template, folder, without)).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('PANEL_NODE is not set'),
    })
  })

  test.runIf(isRoot)(`says clearly that the node is closed to the user of the server${NO_ROOT}`, async () => {
    const closed = await mkdtemp(join(tmpdir(), 'panel-closed-'))
    await symlink(process.execPath, join(closed, 'node'))
    const env = serverEnv(template, folder, { SERVER_PORT: '0', PANEL_NODE: join(closed, 'node') })
    await expect(install(template, folder, env)).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/User \d+ cannot run .*ermission denied/),
    })
    await rm(closed, { recursive: true })
  })

  test('replaces the game on a second run and leaves the scores alone', async () => {
    const env = serverEnv(template, folder, { SERVER_PORT: '0' })
    await install(template, folder, env)
    const files = await readdir(folder)
    const source = await readFile(join(folder, 'game.mjs'), 'utf8')
    await writeFile(join(folder, 'scores.json'), 'mine')
    await rm(join(folder, 'game.mjs'))
    expect(await install(template, folder, env)).toContain('Gold Rush is installed')
    expect((await readdir(folder)).sort()).toEqual([...files, 'scores.json'].sort())
    expect(await readFile(join(folder, 'game.mjs'), 'utf8')).toBe(source)
    expect(source).toBe(await readFile(new URL('../../templates/demo/game.mjs', import.meta.url), 'utf8'))
    expect(await readFile(join(folder, 'scores.json'), 'utf8')).toBe('mine')
  })
})
