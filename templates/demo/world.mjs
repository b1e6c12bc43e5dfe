const WIDTH = 12
const HEIGHT = 8
const FIRST_NUGGETS = 5
const MOST_NUGGETS = 12
const EVENT_EVERY_MS = 5_000
const STEPS = { n: [0, -1], s: [0, 1], w: [-1, 0], e: [1, 0] }

/**
 * The field of the game, without network or files: players walk over a grid and pick up gold; a round ends after a time
 * and its points go into the totals. Times are milliseconds of one clock that only goes forward.
 */
export class World {
  #players = new Map()
  #nuggets = new Map()
  #roundMs
  #roundEnds = 0
  #nextEvent = 0
  #reminders = []

  constructor({ roundSeconds, round, totals }) {
    this.#roundMs = roundSeconds * 1000
    this.round = round
    this.totals = totals
  }

  get players() {
    return [...this.#players.values()]
  }

  secondsLeft(now) {
    return Math.max(0, Math.ceil((this.#roundEnds - now) / 1000))
  }

  join(name) {
    const player = { name, points: 0, ...this.#freeSquare() }
    this.#players.set(name.toLowerCase(), player)
    return player
  }

  /** Takes a player off the field; the points of the running round are kept. */
  leave(player) {
    this.#players.delete(player.name.toLowerCase())
    this.#bank(player)
  }

  has(name) {
    return this.#players.has(name.toLowerCase())
  }

  /** Walks one step. Answers what to tell the player and, when gold was found, what to tell everybody. */
  move(player, direction) {
    const [dx, dy] = STEPS[direction]
    const x = player.x + dx
    const y = player.y + dy
    if (x < 0 || y < 0 || x >= WIDTH || y >= HEIGHT) return { answer: 'There is a wall.' }
    player.x = x
    player.y = y
    const here = square(x, y)
    const worth = this.#nuggets.get(here)
    if (worth === undefined) return { answer: `You are at ${here}.` }
    this.#nuggets.delete(here)
    player.points += worth
    const answer = `You are at ${here}: gold! You have ${player.points}.`
    return { answer, news: `${player.name} finds ${worth} gold at ${here}` }
  }

  /** The field as lines of text, seen by one player: `@` is the player, `*` gold, a letter somebody else. */
  draw(player) {
    const lines = [`   ${Array.from({ length: WIDTH }, (_, x) => column(x)).join(' ')}`]
    for (let y = 0; y < HEIGHT; y += 1) {
      const row = Array.from({ length: WIDTH }, (_, x) => this.#sign(player, x, y))
      lines.push(`${String(y + 1).padStart(2)} ${row.join(' ')}`)
    }
    return lines
  }

  /** Lets time pass; answers the news since the last call, at most a few lines. */
  tick(now) {
    if (now >= this.#roundEnds) return this.nextRound(now)
    const news = []
    if (this.secondsLeft(now) <= (this.#reminders[0] ?? -1)) {
      this.#reminders.shift()
      news.push(`Round ${this.round}: ${this.secondsLeft(now)} s left, ${this.#nuggets.size} nuggets on the field`)
    } else if (now >= this.#nextEvent) {
      this.#nextEvent = now + EVENT_EVERY_MS
      news.push(this.#event())
    }
    return news
  }

  /** Ends the running round, if there is one, and begins the next. */
  nextRound(now) {
    const news = this.#roundEnds === 0 ? [] : [this.#result()]
    for (const player of this.#players.values()) this.#bank(player)
    this.round += 1
    this.#roundEnds = now + this.#roundMs
    this.#nextEvent = now + EVENT_EVERY_MS
    this.#reminders = [60, 30, 10].filter((seconds) => seconds * 1000 < this.#roundMs)
    this.#nuggets.clear()
    for (let i = 0; i < FIRST_NUGGETS; i += 1) this.#drop()
    news.push(`Round ${this.round} begins: ${this.#roundMs / 1000} s, ${this.#nuggets.size} nuggets on the field`)
    return news
  }

  /** The best players of all rounds, the points of the running one included. */
  ranking(count) {
    const sums = new Map([...this.totals].map(([key, entry]) => [key, { ...entry }]))
    for (const { name, points } of this.#players.values()) {
      const key = name.toLowerCase()
      sums.set(key, { name, points: (sums.get(key)?.points ?? 0) + points })
    }
    return [...sums.values()].sort((a, b) => b.points - a.points).slice(0, count)
  }

  #bank(player) {
    if (player.points === 0) return
    const key = player.name.toLowerCase()
    this.totals.set(key, { name: player.name, points: (this.totals.get(key)?.points ?? 0) + player.points })
    player.points = 0
  }

  #result() {
    const best = this.players.sort((a, b) => b.points - a.points)[0]
    if (best === undefined || best.points === 0) return `Round ${this.round} is over: nobody found gold`
    return `Round ${this.round} is over: ${best.name} wins with ${best.points} gold`
  }

  #event() {
    if (this.#nuggets.size < MOST_NUGGETS) return this.#drop()
    const [oldest] = this.#nuggets.keys()
    this.#nuggets.delete(oldest)
    return `Sand covers the gold at ${oldest}`
  }

  #drop() {
    const { x, y } = this.#freeSquare()
    const worth = 1 + Math.floor(Math.random() * 5)
    this.#nuggets.set(square(x, y), worth)
    return `A nugget worth ${worth} appears at ${square(x, y)}`
  }

  /** A square without gold, and without a player unless the players cover all others. */
  #freeSquare() {
    const squares = Array.from({ length: WIDTH * HEIGHT }, (_, i) => ({ x: i % WIDTH, y: Math.floor(i / WIDTH) }))
    const bare = squares.filter(({ x, y }) => !this.#nuggets.has(square(x, y)))
    const free = bare.filter(({ x, y }) => !this.players.some((player) => player.x === x && player.y === y))
    const choice = free.length > 0 ? free : bare
    return choice[Math.floor(Math.random() * choice.length)]
  }

  #sign(player, x, y) {
    if (player.x === x && player.y === y) return '@'
    const other = this.players.find((one) => one.x === x && one.y === y)
    if (other !== undefined) return Array.from(other.name)[0]
    return this.#nuggets.has(square(x, y)) ? '*' : '.'
  }
}

function column(x) {
  return String.fromCharCode(97 + x)
}

function square(x, y) {
  return `${column(x)}${y + 1}`
}
