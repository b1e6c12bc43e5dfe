import { clean, createLineReader } from './lines.mjs'

const LINE_BYTES = 400
const UNSENT_BYTES = 64 * 1024
const NAMELESS_CONNECTIONS = 16
const NAME_WITHIN_MS = 20_000
const IDLE_MS = 5 * 60_000
const GREET_AFTER_MS = 1000
const BURST_LINES = 20
const LINES_PER_SECOND = 5
const NAME = /^[\p{L}\p{N}][\p{L}\p{N}_-]{0,15}$/u
const HELP = [
  'n, s, e, w: walk · look: the field · say TEXT: talk · who: players · scores: best players · quit: leave',
  'Walk onto * to pick up gold. The player with the most gold wins the round.',
]

/**
 * The connected people. Nobody can hurt the game from here: lines, their rate, unsent bytes, silence and the number of
 * connections are limited, and all text is cleaned before anybody sees it.
 */
export class Lobby {
  #guests = new Set()
  #accepted = { tokens: BURST_LINES, at: 0 }

  constructor({ world, gameName, maxPlayers, log, now, describe }) {
    Object.assign(this, { world, gameName, maxPlayers, log, now, describe })
  }

  accept(socket) {
    // An error is always followed by 'close', which does all that is to be done.
    socket.on('error', () => undefined)
    const nameless = [...this.#guests].filter((guest) => guest.player === undefined).length
    if (nameless >= NAMELESS_CONNECTIONS || !this.#take(this.#accepted)) {
      socket.destroy()
      return
    }
    const now = this.now()
    const rate = { tokens: BURST_LINES, at: now }
    const guest = { socket, player: undefined, greeted: false, lastLine: now, leaving: undefined, rate }
    this.#guests.add(guest)
    const read = createLineReader({
      limit: LINE_BYTES,
      onLine: (line) => this.#line(guest, line),
      onTooLong: () => this.#dismiss(guest, 'Your line is too long.', 'sent too long a line'),
    })
    socket.on('data', read)
    socket.on('close', () => {
      this.#guests.delete(guest)
      this.#depart(guest, 'left')
    })
  }

  broadcast(text, except) {
    for (const guest of this.#guests) if (guest.player !== undefined && guest !== except) this.#tell(guest, text)
  }

  /** Answers false when nobody of that name plays. */
  kick(name) {
    const guest = [...this.#guests].find((one) => one.player?.name.toLowerCase() === name.toLowerCase())
    if (guest === undefined) return false
    this.#dismiss(guest, 'You were kicked.', 'was kicked')
    return true
  }

  /**
   * Greets people who have not said anything yet, and ends the connections of those who are silent for too long. A
   * program that asks for the state gets its answer as the first line, also over a slow line: people are greeted late.
   */
  tick(now) {
    for (const guest of this.#guests) {
      if (!guest.greeted && now - guest.lastLine >= GREET_AFTER_MS) {
        this.#tell(guest, `Welcome to ${this.gameName}. Your name?`)
        guest.greeted = true
      }
      const limit = guest.player === undefined ? NAME_WITHIN_MS : IDLE_MS
      if (guest.leaving !== undefined) {
        if (now - guest.leaving > 1000) guest.socket.destroy()
      } else if (now - guest.lastLine > limit)
        this.#dismiss(guest, 'You were silent for too long.', 'was silent for too long')
    }
  }

  /** Says goodbye to all; after one second the connections of those who do not hang up are cut. */
  async close(text) {
    const open = [...this.#guests]
    const closed = open.map(({ socket }) => new Promise((resolve) => socket.once('close', resolve)))
    for (const guest of open) this.#dismiss(guest, text, 'left')
    const timer = setTimeout(() => {
      for (const { socket } of open) socket.destroy()
    }, 1000)
    await Promise.all(closed)
    clearTimeout(timer)
  }

  #line(guest, raw) {
    if (guest.leaving !== undefined) return
    guest.lastLine = this.now()
    guest.greeted = true
    if (!this.#take(guest.rate)) return this.#dismiss(guest, 'Not so fast.', 'sent too many lines')
    const line = clean(raw, 200)
    if (guest.player === undefined) return this.#introduce(guest, line)
    const [word = '', ...others] = line.split(/\s+/)
    this.#command(guest, word.toLowerCase(), others.join(' '))
  }

  #introduce(guest, name) {
    if (name === 'QUERY') return this.#leave(guest, JSON.stringify(this.describe()))
    if (!NAME.test(name)) return this.#tell(guest, 'A name has 1 to 16 letters, digits, _ or -. Your name?')
    if (this.world.has(name)) return this.#tell(guest, `${name} is playing already. Your name?`)
    if (this.world.players.length >= this.maxPlayers) return this.#leave(guest, 'The game is full. Come back later.')
    guest.player = this.world.join(name)
    this.log('INFO', `${name} joined (${this.world.players.length}/${this.maxPlayers})`)
    this.broadcast(`${name} joined.`, guest)
    for (const line of [`Hello ${name}.`, ...HELP, ...this.world.draw(guest.player)]) this.#tell(guest, line)
  }

  #command(guest, word, rest) {
    const { player } = guest
    if (['n', 's', 'e', 'w'].includes(word)) {
      const { answer, news } = this.world.move(player, word)
      this.#tell(guest, answer)
      if (news === undefined) return
      this.log('INFO', news)
      this.broadcast(news, guest)
    } else if (word === 'look') for (const line of this.world.draw(player)) this.#tell(guest, line)
    else if (word === 'say' && rest !== '') {
      this.log('INFO', `<${player.name}> ${rest}`)
      this.broadcast(`<${player.name}> ${rest}`)
    } else if (word === 'who')
      this.#tell(guest, this.world.players.map((one) => `${one.name} ${one.points}`).join(', '))
    else if (word === 'scores') this.#tell(guest, scoreLine(this.world))
    else if (word === 'help') for (const line of HELP) this.#tell(guest, line)
    else if (word === 'quit') this.#leave(guest, 'Goodbye.')
    else if (word !== '') this.#tell(guest, `Unknown: ${word}. Type help.`)
  }

  #tell(guest, text) {
    const { socket } = guest
    if (guest.leaving !== undefined || !socket.writable) return
    if (socket.writableLength > UNSENT_BYTES) {
      this.#depart(guest, 'reads too slowly')
      socket.destroy()
    } else socket.write(`${text}\n`)
  }

  #dismiss(guest, text, why) {
    this.#depart(guest, why)
    this.#leave(guest, text)
  }

  /** The last line is sent and the connection half closed; what still comes in is read and ignored. */
  #leave(guest, text) {
    this.#tell(guest, text)
    guest.leaving ??= this.now()
    this.#depart(guest, 'left')
    guest.socket.end()
  }

  #depart(guest, why) {
    const { player } = guest
    if (player === undefined) return
    guest.player = undefined
    this.world.leave(player)
    this.log('INFO', `${player.name} ${why} (${this.world.players.length}/${this.maxPlayers})`)
    this.broadcast(`${player.name} ${why}.`)
  }

  #take(bucket) {
    const now = this.now()
    bucket.tokens = Math.min(BURST_LINES, bucket.tokens + ((now - bucket.at) / 1000) * LINES_PER_SECOND)
    bucket.at = now
    if (bucket.tokens < 1) return false
    bucket.tokens -= 1
    return true
  }
}

/** The best players in one line. */
export function scoreLine(world) {
  const best = world.ranking(10).map((entry, i) => `${i + 1}. ${entry.name} ${entry.points}`)
  return best.length === 0 ? 'No scores yet.' : `Best players: ${best.join(', ')}`
}
