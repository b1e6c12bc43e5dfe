import type { Faults, WorldOptions } from './options.ts'

/** What flags can say; the rest needs code. */
export type FlaggedOptions = Partial<WorldOptions> & { readonly faults: Partial<Faults>; readonly folder?: string }

/** As many as there are, where a count is not said. */
const EACH = Number.MAX_SAFE_INTEGER

type Read = (value: string | undefined) => unknown

const count: Read = (value) => {
  const read = value === undefined ? EACH : Number(value)
  if (!Number.isSafeInteger(read) || read < 0) throw new Error(`${value} is not a count`)
  return read
}
const seconds: Read = (value) => Number(value) * 1000
const list: Read = (value) => (value ?? '').split(',')
const numbers: Read = (value) => (value ?? '').split(',').map(Number)
const on: Read = (value) => value === undefined
const oneOf =
  (...values: string[]): Read =>
  (value) => {
    if (value === undefined || !values.includes(value)) throw new Error(`${value} is not one of ${values.join(', ')}`)
    return value
  }

const WORLD: Readonly<Record<string, readonly [keyof WorldOptions, Read]>> = {
  flavor: ['flavor', oneOf('pterodactyl', 'pelican')],
  seed: ['seed', count],
  servers: ['servers', count],
  nodes: ['nodes', count],
  users: ['users', count],
  'files-per-server': ['filesPerServer', count],
  'file-kb': ['fileKb', count],
  suspended: ['suspended', count],
  'full-slots': ['fullSlots', count],
  'zero-slots': ['zeroSlots', count],
  'dangling-owners': ['danglingOwners', count],
  'poison-egg': ['poisonEgg', on],
  plain: ['oddities', (value) => value !== undefined],
  s3: ['s3', on],
}

const FAULTS: Readonly<Record<string, readonly [keyof Faults, Read]>> = {
  throttle: ['throttle', count],
  'throttle-window': ['throttleWindowMs', seconds],
  'retry-after': ['retryAfter', oneOf('seconds', 'date')],
  'fail-every': ['failEvery', count],
  'fail-kind': ['failKind', oneOf('500', '502', '503', '504', 'html', 'cut', 'reset', 'lost', 'hang')],
  'fail-methods': ['failMethods', list],
  'fail-count': ['failLeft', count],
  'fail-path': ['failPath', (value) => value ?? ''],
  'delay-ms': ['delayMs', count],
  'stop-ms': ['stopMs', count],
  'backup-ms': ['backupMs', count],
  'backup-fail': ['backupFail', count],
  'backup-hang': ['backupHang', count],
  'truncate-backup': ['truncateBackup', count],
  'truncate-mode': ['truncateMode', oneOf('reset', 'short')],
  'corrupt-backup': ['corruptBackup', count],
  'download-missing': ['downloadMissing', count],
  'hostile-tar': ['hostileTar', on],
  'tar-bomb': ['tarBomb', on],
  'slow-bps': ['slowBps', count],
  'wings-offline': ['wingsOffline', numbers],
  'forced-2fa': ['forced2fa', on],
}

/**
 * The options that a line like `--servers 12 --backup-fail 1 --poison-egg --folder /var/tmp/source` stands for. Counts without a number mean every time.
 * Throws for what it does not know.
 */
export function sourceFlags(line: string): FlaggedOptions {
  const world: Record<string, unknown> = {}
  const faults: Record<string, unknown> = {}
  let folder: { readonly folder?: string } = {}
  const words = line.split(/\s+/).filter((word) => word !== '')
  while (words.length > 0) {
    const flag = words.shift() ?? ''
    const value = words[0]?.startsWith('--') === false ? words.shift() : undefined
    const name = flag.replace(/^--/, '')
    const [inWorld, inFaults] = [WORLD[name], FAULTS[name]]
    if (name === 'folder' && value !== undefined) folder = { folder: value }
    else if (inWorld !== undefined) world[inWorld[0]] = inWorld[1](value)
    else if (inFaults !== undefined) faults[inFaults[0]] = inFaults[1](value)
    else throw new Error(`the simulator has no flag ${flag}`)
  }
  return { ...folder, ...(world as Partial<WorldOptions>), faults: faults as Partial<Faults> }
}
