import type { Clock } from '../../shared/kernel/time.ts'
import { AgentFailure } from '../failure.ts'
import type { GameServer, LiveRun } from '../server/server.ts'
import { RconClient, type RconTarget } from './rcon/rcon-client.ts'
import type { RconPlace } from './rcon/rcon-place.ts'

/** A terminal takes no longer line at once. */
const MOST_TERMINAL_BYTES = 4094
/** How much of an answer goes into the console at once. */
const NOTE_CHARS = 32 * 1024
const PIECE_CHARS = 4096
const LOOPBACK = '127.0.0.1'
const LOOKS = 5
const LOOK_MS = 300
const SHORTEST_MASKED = 4
const MASK = '********'
/** Colours as Minecraft writes them. */
const MINECRAFT_COLOUR = /\u00A7[0-9a-fk-orx]/gi

/** The clients of living runs; one goes with its run. */
const clients = new WeakMap<LiveRun, RconClient>()

/** How a line is typed. */
export interface TypeOptions {
  /** It is the stop command of an order: where lines wait for a game, it goes before them. */
  readonly isStop?: boolean
  /** Aborts when nobody waits for it any more: what has not left for the game by then never does. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Types a line into the console of a game, wherever that is. Resolves when the game has it, by RCON with its answer in the console.
 * Rejects with an AgentFailure: NO_INPUT for a game that takes none, RCON_FAILED.
 */
export async function typeLine(
  server: GameServer,
  live: LiveRun,
  line: string,
  options: TypeOptions = {},
): Promise<void> {
  const { console, rcon } = server.rules
  switch (console?.input?.kind) {
    case 'none':
      throw new AgentFailure('NO_INPUT', 'This game takes no input from its console; use its own tools in the game')
    case 'rcon':
      return await sendByRcon(server, live, { ...options, place: rcon, line })
    case 'pty':
      refuseKeys(line)
      return await live.run.input(line)
    default:
      return await live.run.input(line)
  }
}

/** Control characters are keys of a terminal: an interrupt or a suspension is not what somebody may do who may type. */
function refuseKeys(line: string): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these are keys
  if (/[\u0000-\u0008\u000a-\u001f\u007f]/.test(line))
    throw new AgentFailure('BAD_REQUEST', 'must not contain control characters, as the game has a terminal')
  if (Buffer.byteLength(line) > MOST_TERMINAL_BYTES)
    throw new AgentFailure('BAD_REQUEST', `must have at most ${MOST_TERMINAL_BYTES} bytes, as the game has a terminal`)
}

async function sendByRcon(
  server: GameServer,
  live: LiveRun,
  { place, line, ...options }: TypeOptions & { readonly place: RconPlace | undefined; readonly line: string },
): Promise<void> {
  if (place === undefined) throw new AgentFailure('RCON_FAILED', 'The server was started without RCON; start it again')
  const { clock, runs } = server.context
  const known = clients.get(live)
  const client = known ?? new RconClient(() => targetOf(live, place, clock), clock)
  if (known === undefined) {
    clients.set(live, client)
    live.run.exited.then(
      () => client.close(),
      () => client.close(),
    )
  }
  const answer = await client.send(line, options)
  await runs.note(server.place, maskedIn(line, place), 'stdin')
  const colourless = place.protocol === 'minecraft' ? answer.text.replaceAll(MINECRAFT_COLOUR, '') : answer.text
  const text = maskedIn(colourless, place).trimEnd()
  for (const part of text === '' ? [] : parts(text)) await runs.note(server.place, part, 'stdout')
  if (answer.isCut) await server.note('The answer was longer than 1 MiB; the rest is left out')
  if (answer.brokenOff !== undefined) await server.note(`The answer is not complete: ${answer.brokenOff}`)
}

/** The password goes to nobody but a process of this very run. */
async function targetOf(live: LiveRun, place: RconPlace, clock: Clock): Promise<RconTarget> {
  const { protocol, port, password, passwordVariable } = place
  if (port === 0 || password === '') {
    const what = port === 0 ? 'port is not set' : `password is empty: set the variable ${passwordVariable}`
    throw new AgentFailure('RCON_FAILED', `The RCON ${what}, and start the server again`)
  }
  // What the kernel lists is read once in a second: a port that was just opened shows a moment later.
  for (let attempt = 0; attempt < LOOKS; attempt++) {
    if (attempt > 0) await clock.sleep(LOOK_MS)
    for (const ip of new Set([place.ip, LOOPBACK])) {
      const sockets = await live.run.listening({ ip, port })
      if (!sockets.some((socket) => socket.protocol === 'tcp')) continue
      return { protocol, host: ip === '0.0.0.0' ? LOOPBACK : ip, port, password, passwordVariable }
    }
  }
  throw new AgentFailure('RCON_FAILED', `The server does not listen on its RCON port ${port} yet`)
}

function maskedIn(text: string, { password }: RconPlace): string {
  return password.length < SHORTEST_MASKED ? text : text.replaceAll(password, MASK)
}

/** Whole lines, as many as go at once; a longer line is cut. */
function parts(text: string): string[] {
  const made: string[] = []
  let part: string[] = []
  let chars = 0
  for (const line of text.split(/\r?\n/).flatMap(cut)) {
    if (chars + line.length > NOTE_CHARS && part.length > 0) {
      made.push(part.join('\n'))
      part = []
      chars = 0
    }
    part.push(line)
    chars += line.length + 1
  }
  return [...made, part.join('\n')]
}

/** A line of the console has at most 16 KiB. */
function cut(line: string): string[] {
  const pieces: string[] = []
  for (let at = 0; at === 0 || at < line.length; ) {
    // No piece ends within a character of two halves.
    const end = isFirstHalf(line.charCodeAt(at + PIECE_CHARS - 1)) ? at + PIECE_CHARS - 1 : at + PIECE_CHARS
    pieces.push(line.slice(at, end))
    at = end
  }
  return pieces
}

function isFirstHalf(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff
}
