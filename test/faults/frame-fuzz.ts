import fc from 'fast-check'

/** How far the connection has come when the frame is sent. */
export type FuzzPhase = 'fresh' | 'welcomed' | 'ready'

/** One case: what is sent, and when. */
export interface FuzzCase {
  readonly phase: FuzzPhase
  readonly data: string | Buffer
}

const TYPES = [
  'hello',
  'snapshot',
  'event',
  'command.accepted',
  'reply',
  'console',
  'console.gap',
  'stats',
  'health',
  'weather',
  '__proto__',
  'constructor',
] as const
const PROTO = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'then'] as const

/** Numbers at the edges of what numbers are. */
const edge: fc.Arbitrary<number> = fc.constantFrom(
  0,
  -1,
  1,
  0.5,
  -0,
  2 ** 31,
  2 ** 32,
  2 ** 53 - 1,
  2 ** 53,
  1e21,
  1e300,
  -1e300,
  Number.MAX_VALUE,
  Number.MIN_VALUE,
)
const number = fc.oneof(fc.integer({ min: 0, max: 1000 }), edge)
const word = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom(...PROTO, '', '\u0000', '\ud800', '../../etc', "'; DROP TABLE server; --", 'x'.repeat(70_000)),
)
const anything = fc.oneof(fc.jsonValue({ maxDepth: 4 }), number, word, fc.constant(null))

/** Frames of all types over these servers, right ones and such as have been spoilt, and things that are no frames. */
export function fuzzCases(serverIds: readonly string[]): fc.Arbitrary<FuzzCase> {
  const right = frames(serverIds)
  const data: fc.Arbitrary<string | Buffer> = fc.oneof(
    { weight: 5, arbitrary: right.map((frame) => JSON.stringify(frame)) },
    { weight: 8, arbitrary: fc.tuple(right, fc.nat(), anything, fc.nat(4)).map(spoil) },
    { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 6 }).map((value) => JSON.stringify(value)) },
    { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...TYPES), fc.object({ maxDepth: 3 })).map(typed) },
    { weight: 1, arbitrary: word },
    { weight: 1, arbitrary: fc.tuple(right, fc.nat(), fc.nat(255)).map(damage) },
    { weight: 1, arbitrary: fc.tuple(fc.constantFrom(3, 17, 1000, 30_000), fc.boolean()).map(deep) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)) },
  )
  // A snapshot is only looked at where one is due.
  const snapshot = right.filter(({ type }) => type === 'snapshot').map((frame) => JSON.stringify(frame))
  const due = fc.record({ phase: fc.constant<FuzzPhase>('welcomed'), data: snapshot })
  const any = fc.record({ phase: fc.constantFrom<FuzzPhase>('fresh', 'welcomed', 'ready', 'ready'), data })
  return fc.oneof({ weight: 9, arbitrary: any }, { weight: 1, arbitrary: due })
}

/** What an agent may answer to a request, and what no agent does. */
export function fuzzAnswers(): fc.Arbitrary<unknown> {
  const bounds = { epoch: fc.constantFrom('', 'epocha', 'b'.repeat(100), '\u0000'), first: number, last: number }
  const fetched = fc.record({ ...bounds, lines: fc.array(line, { maxLength: 5 }) })
  return fc.oneof(fc.record(bounds), fetched, anything)
}

/** Whole numbers that fit, their edges among them: what a frame must have to be taken at all. */
const count = fc.oneof(fc.integer({ min: 1, max: 1000 }), fc.constantFrom(1, 2 ** 31, 2 ** 53 - 1))
const short = fc.oneof(fc.string({ maxLength: 20 }), fc.constantFrom(...PROTO, '', '\u0000', '\ud800', '../../etc'))
const line = fc.tuple(count, number, fc.constantFrom('stdout', 'stderr', 'stdin', 'system'), word, count)

function frames(serverIds: readonly string[]): fc.Arbitrary<Record<string, unknown>> {
  const serverId = fc.constantFrom(...serverIds, 'srv_unknown', '', ...PROTO)
  const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arbitrary, { nil: null })
  const bounds = fc.record({ epoch: word, first: count, last: count })
  const report = fc.record({
    serverId,
    generation: count,
    power: fc.constantFrom('offline', 'starting', 'running', 'stopping'),
    uptimeMs: maybe(number),
    pid: maybe(count),
    activity: maybe(fc.constantFrom('installing', 'transferring')),
    installed: fc.boolean(),
    installError: maybe(word),
    reason: maybe(word),
    lastExit: maybe(
      fc.record({
        code: maybe(count),
        signal: maybe(word),
        oom: fc.boolean(),
        expected: fc.boolean(),
        uptimeMs: number,
      }),
    ),
    crash: fc.record({ count, crashed: fc.boolean(), nextRestartMs: maybe(number) }),
    console: bounds,
  })
  const error = maybe(fc.record({ code: fc.constantFrom('INTERNAL', 'TIMEOUT', 'NO_SPACE'), message: short }))
  const state = fc.record({
    type: fc.constant('server.state'),
    report,
    previous: fc.constant('offline'),
    commandId: maybe(word),
  })
  const done = fc.record({
    type: fc.constant('command.done'),
    commandId: word,
    serverId,
    ok: fc.boolean(),
    noop: fc.boolean(),
    error,
  })
  const of = (type: string, fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Record<string, unknown>> =>
    fc.record({ type: fc.constant(type), ...fields })
  const figure = maybe(number)
  return fc.oneof(
    of('snapshot', {
      servers: fc.array(report, { maxLength: 3 }),
      commands: fc.array(word, { maxLength: 3 }),
      orphans: fc.array(word, { maxLength: 3 }),
    }),
    of('event', {
      seq: count,
      ageMs: fc.oneof(fc.nat(10_000), fc.constantFrom(0.5, 1e21, Number.MAX_VALUE)),
      event: fc.oneof(state, done),
    }),
    of('command.accepted', { id: word }),
    of('reply', { id: fc.constantFrom('r1', 'r2', ...PROTO), error, result: anything }),
    of('console', { serverId, epoch: word, lines: fc.array(line, { maxLength: 5 }) }),
    of('console.gap', { serverId, epoch: word, from: count, to: count }),
    of('stats', {
      servers: fc.array(
        fc.record({
          serverId,
          cpuCores: figure,
          memoryMb: figure,
          diskMb: figure,
          ioReadBytes: maybe(word),
          ioWriteBytes: maybe(word),
          networkRxBytes: maybe(word),
          networkTxBytes: maybe(word),
          processes: maybe(count),
          uptimeMs: figure,
        }),
        { maxLength: 3 },
      ),
    }),
    of('health', {
      health: fc.record({
        cpuPercent: number,
        load1: number,
        memoryUsageMb: number,
        memoryTotalMb: number,
        diskUsageMb: number,
        diskTotalMb: number,
        networkRxBytes: word,
        networkTxBytes: word,
        uptimeSeconds: number,
        runningServers: count,
      }),
    }),
  )
}

/** Changes one place of a frame: another value, a field less, or a field that objects have from birth. */
function spoil([frame, at, value, how]: [Record<string, unknown>, number, unknown, number]): string {
  const copy: Record<string, unknown> = structuredClone(frame)
  const places: [Record<string, unknown>, string][] = []
  const walk = (object: Record<string, unknown>): void => {
    for (const [key, inner] of Object.entries(object)) {
      places.push([object, key])
      if (isObject(inner)) walk(inner)
    }
  }
  walk(copy)
  const [object, key] = places[at % places.length] ?? [copy, 'type']
  if (how === 0) delete object[key]
  else if (how === 1) Object.defineProperty(object, '__proto__', { value, enumerable: true })
  else object[key] = value
  return JSON.stringify(copy)
}

/** An array is an object whose keys are numbers. */
function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function typed([type, fields]: [string, object]): string {
  return JSON.stringify({ ...fields, type })
}

/** One byte of the text is another one. */
function damage([frame, at, byte]: [object, number, number]): string {
  const bytes = Buffer.from(JSON.stringify(frame))
  bytes[at % bytes.length] = byte
  return bytes.toString('utf8')
}

function deep([depth, inArrays]: [number, boolean]): string {
  return inArrays
    ? `${'['.repeat(depth)}${']'.repeat(depth)}`
    : `{"type":"reply","id":"r1","error":null,"result":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`
}
