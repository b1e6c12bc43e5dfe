import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { GameAddress } from './probe.ts'
import type { RawQuestion } from './raw-probe.ts'
import { joinTeeworlds } from './teeworlds-client.ts'

/** A game of the catalogue, how it is asked in its own protocol, and what the panel shows of it. */
export interface CatalogueGame {
  /** What the catalogue calls it. */
  readonly name: string
  /** What must be on this machine. */
  readonly needs: string
  readonly question: RawQuestion
  /** What `servers view` says of players once the game was asked; `null`: it cannot be asked. */
  readonly playersMax: number | null
  readonly ask?: readonly [command: string, answer: string]
  readonly exit?: { readonly lastExitCode: number | null; readonly lastExitSignal: string | null }
  /** Joins as a client of the game; resolves with how to leave. */
  readonly join?: (address: GameAddress, files: string) => Promise<() => Promise<void>>
  readonly disk?: string
  readonly environment?: readonly string[]
  readonly installSeconds?: number
}

const MARK = '\xff\xff\xff\xff'
const CROSSFIRE_HELLO = 'version 1023 1029 probe'

/** The games of the catalogue that run here. */
export const CATALOGUE_GAMES: readonly CatalogueGame[] = [
  {
    name: 'armagetron',
    needs: '/usr/games/armagetronad-dedicated.real',
    question: { over: 'udp', send: '\0\x35\0\0\0\0\0\x11', expect: '\0\x33\0' },
    playersMax: 16,
    ask: ['SAY good evening', 'Admin: good evening'],
  },
  {
    name: 'bzflag',
    needs: '/usr/games/bzfs',
    question: { over: 'tcp', send: 'BZFLAG\r\n\r\n', expect: 'BZFS0221' },
    playersMax: 20,
  },
  {
    name: 'crossfire',
    needs: '/usr/sbin/crossfire-server',
    question: {
      over: 'tcp',
      send: `\0${String.fromCharCode(CROSSFIRE_HELLO.length)}${CROSSFIRE_HELLO}`,
      expect: 'version ',
    },
    playersMax: null,
  },
  {
    name: 'mumble',
    needs: '/usr/sbin/murmurd',
    question: { over: 'udp', send: '\0\0\0\x00abcdefgh', expect: 'abcdefgh' },
    playersMax: 50,
  },
  {
    name: 'openarena',
    needs: '/usr/lib/openarena-server/baseoa/pak0.pk3',
    question: { over: 'udp', send: `${MARK}getinfo xyz\n`, expect: '\\challenge\\xyz' },
    playersMax: 12,
    ask: ['status', 'map: oa_dm1'],
  },
  {
    name: 'wesnoth',
    needs: '/usr/games/wesnothd-1.16',
    question: { over: 'tcp', send: '\0\0\0\0', expect: '' },
    playersMax: null,
    ask: ['help', 'Available commands are'],
  },
  {
    name: 'openttd',
    needs: '/usr/games/openttd',
    question: { over: 'tcp', send: '\x03\0\x07', expect: 'OpenTTD on panel' },
    playersMax: 25,
  },
  {
    name: 'freeciv',
    needs: '/usr/games/freeciv-server',
    question: {
      over: 'tcp',
      send: '\0\x2b\x04probe\0+Freeciv-3.0-network\0\0\0\0\0\x03\0\0\0\0\0\0\0\x06',
      expect: '\x05',
    },
    playersMax: null,
  },
  {
    name: 'luanti',
    needs: '/usr/lib/minetest/minetestserver',
    question: { over: 'udp', send: 'OEt\x03\0\0\0\x01', expect: 'OEt\x03\0\x01' },
    playersMax: null,
  },
  {
    name: 'teeworlds',
    needs: '/usr/games/teeworlds-server',
    question: { over: 'udp', send: `\x04\0\0${MARK}\x05abcd${'\0'.repeat(508)}`, expect: '\x04\0\0abcd\x05' },
    playersMax: 16,
    exit: { lastExitCode: null, lastExitSignal: 'SIGTERM' },
    join: joinTeeworlds,
  },
  {
    name: 'flying-squid',
    needs: '/usr/bin/npm',
    question: { over: 'tcp', send: `\x13\0\xff\xff\xff\xff\x0f\x09127.0.0.1\0\0\x01\x01\0`, expect: '"players"' },
    playersMax: 10,
    exit: { lastExitCode: null, lastExitSignal: 'SIGTERM' },
    join: joinMinecraft,
    // Its answer has a list of names, which it never fills.
    disk: '2G',
    environment: ['ONLINE_MODE=false', 'GENERATION=superflat'],
    installSeconds: 240,
  },
]

/** A player of Minecraft by the client that comes with flying-squid. */
async function joinMinecraft({ host, port }: GameAddress, files: string): Promise<() => Promise<void>> {
  const load = createRequire(join(files, 'node_modules/flying-squid/package.json'))
  const { createClient } = load('minecraft-protocol')
  const client = createClient({ host, port, username: 'Ann', auth: 'offline', version: '1.16.1' })
  await new Promise((resolve, reject) => {
    client.once('login', resolve)
    client.once('error', reject)
  })
  return async () => {
    client.end()
  }
}
