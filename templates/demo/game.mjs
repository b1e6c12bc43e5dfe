/**
 * Gold Rush: a game for several people over TCP (`nc ADDRESS PORT`). Settings come from the environment, the operator's
 * commands from stdin; the log and the answers go to stdout, errors to stderr. A connection whose first line is `QUERY`
 * is answered with one line of JSON.
 */
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { clean, createLineReader } from './lines.mjs'
import { Lobby, scoreLine } from './lobby.mjs'
import { loadScores, saveScores } from './scores.mjs'
import { World } from './world.mjs'

const SCORE_FILE = 'scores.json'
const HELP = 'Commands: help, list, say TEXT, kick NAME, status, scores, round, save, stop'

// When nobody reads the log any more, the game goes on without it.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

await main()

async function main() {
  const settings = readSettings(process.env)
  if (settings.problems.length > 0) {
    for (const problem of settings.problems) log('ERROR', problem)
    process.exit(1)
  }
  const now = () => performance.now()
  const world = new World({ ...settings, ...(await loadScores(SCORE_FILE, (text) => log('WARN', text))) })
  const describe = () => ({
    name: settings.gameName,
    players: world.players.length,
    max: settings.maxPlayers,
    round: world.round,
    uptime: Math.floor(process.uptime()),
  })
  const lobby = new Lobby({ ...settings, world, log, now, describe })
  const game = { settings, world, lobby, now, describe, stop: () => undefined, saving: Promise.resolve() }
  const server = await listen(game)
  const stopping = new Promise((resolve) => {
    game.stop = resolve
  })
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => game.stop(`signal ${signal}`))
  readConsole(game)
  const ended = new AbortController()
  const time = passTime(game, ended.signal)
  const reason = await stopping
  ended.abort()
  await time
  await shutDown(game, server, reason)
}

function readSettings(env) {
  const problems = []
  const whole = (name, { least, most, otherwise }) => {
    const text = env[name] || otherwise
    const value = /^\d{1,9}$/.test(text ?? '') ? Number(text) : Number.NaN
    if (value >= least && value <= most) return value
    problems.push(`${name} must be a whole number from ${least} to ${most}${text ? '' : ', and is not set'}`)
    return least
  }
  return {
    gameName: clean(env.GAME_NAME ?? '', 40) || 'Gold Rush',
    host: env.SERVER_IP || '127.0.0.1',
    port: whole('SERVER_PORT', { least: 0, most: 65_535 }),
    maxPlayers: whole('MAX_PLAYERS', { least: 1, most: 64, otherwise: '8' }),
    roundSeconds: whole('ROUND_SECONDS', { least: 5, most: 3600, otherwise: '90' }),
    problems,
  }
}

/** Binds the port or ends the program: a game that nobody can join does not say that it is ready. */
async function listen({ settings, lobby }) {
  const { host, port } = settings
  const server = createServer((socket) => lobby.accept(socket))
  await new Promise((resolve) => {
    server.once('error', (error) => {
      const why = error.code === 'EADDRINUSE' ? 'the port is taken by another program' : error.message
      log('ERROR', `Cannot listen on ${host}:${port}: ${why}`)
      process.exit(1)
    })
    server.listen({ host, port, exclusive: true }, resolve)
  })
  server.removeAllListeners('error')
  server.on('error', (error) => log('WARN', `A connection could not be accepted: ${error.message}`))
  log('INFO', `Ready: ${settings.gameName} takes players on ${host}:${server.address().port}`)
  return server
}

async function passTime(game, signal) {
  const { world, lobby, now } = game
  let savedRound = world.round
  while (!signal.aborted) {
    const news = world.tick(now())
    tellAll(game, news)
    lobby.tick(now())
    if (world.round !== savedRound) await save(game)
    savedRound = world.round
    await sleep(500, undefined, { signal }).catch(() => undefined) // only an abort rejects, and the loop looks at that
  }
}

function tellAll({ lobby }, news) {
  for (const text of news) {
    log('INFO', text)
    lobby.broadcast(text)
  }
}

function readConsole(game) {
  const read = createLineReader({
    limit: 16 * 1024,
    onLine: (line) => command(game, clean(line, 400)),
    onTooLong: () => log('WARN', 'That line is too long.'),
  })
  process.stdin.on('data', read)
  process.stdin.on('error', (error) => log('WARN', `No more commands can be read: ${error.message}`))
}

function command(game, line) {
  const { world, lobby, settings } = game
  const [word = '', ...others] = line.split(/\s+/)
  const rest = others.join(' ')
  const commands = {
    help: () => log('INFO', HELP),
    list: () => log('INFO', playerLine(world, settings.maxPlayers)),
    scores: () => log('INFO', scoreLine(world)),
    status: () => log('INFO', statusLine(game)),
    round: () => tellAll(game, world.nextRound(game.now())),
    save: () => save(game),
    stop: () => game.stop('command stop'),
    say: () => (rest === '' ? log('WARN', 'Usage: say TEXT') : tellAll(game, [`[server] ${rest}`])),
    kick: () => {
      if (rest === '') log('WARN', 'Usage: kick NAME')
      else if (!lobby.kick(rest)) log('WARN', `There is no player called ${rest}.`)
    },
  }
  if (word === '') return
  if (Object.hasOwn(commands, word)) commands[word]()
  else log('WARN', `Unknown command: ${word}. ${HELP}`)
}

function playerLine(world, max) {
  const names = world.players.map((player) => `${player.name} (${player.points} gold)`)
  return `Players ${names.length}/${max}${names.length === 0 ? '' : `: ${names.join(', ')}`}`
}

function statusLine({ describe, world, now }) {
  const { name, players, max, round, uptime } = describe()
  return `${name}: round ${round}, ${world.secondsLeft(now())} s left, players ${players}/${max}, up ${uptime} s`
}

/** One save at a time, in order; a failing one is reported and does not end the game. Answers whether it succeeded. */
async function save(game) {
  game.saving = game.saving.then(() => saveNow(game.world))
  return await game.saving
}

async function saveNow(world) {
  try {
    log('INFO', `Saved ${await saveScores(SCORE_FILE, world)} scores to ${SCORE_FILE}`)
    return true
  } catch (error) {
    log('ERROR', `The scores could not be saved: ${error.message}`)
    return false
  }
}

async function shutDown(game, server, reason) {
  log('INFO', `Stopping: ${reason}`)
  server.close()
  await game.lobby.close('The game stops. Goodbye.')
  const saved = await save(game)
  log('INFO', 'Goodbye.')
  process.exit(saved ? 0 : 1)
}

function log(level, text) {
  const time = new Date().toISOString().slice(0, 19).replace('T', ' ')
  const line = `${time} ${level.padEnd(5)} ${text}\n`
  if (level === 'ERROR') process.stderr.write(line)
  else process.stdout.write(line)
}
