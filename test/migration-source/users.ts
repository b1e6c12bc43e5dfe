import type { WorldOptions } from './options.ts'
import type { Random } from './random.ts'
import type { SimUser } from './rows.ts'

/** As real panels have them: dots, both cases, two names that become one where dots are not allowed, no last name. */
const ODD: readonly Partial<SimUser>[] = [
  { username: 'j.doe', email: 'J.Doe@Players.Example' },
  { username: 'j_doe', email: 'other.doe@players.example', has2fa: true },
  { username: 'UPPER.Case', email: 'UPPER@players.example', lastName: '' },
  { username: 'ünïcödé', email: 'unicode@players.example', firstName: 'Zoë' },
  // A part of the address of another one, for which filters find both.
  { username: '0', email: 'doe@players.example' },
]

/** The users of a source: the administrator first. */
export function usersOf(random: Random, { users, oddities }: WorldOptions): SimUser[] {
  const admin: SimUser = {
    id: 1,
    uuid: random.uuid(),
    username: 'admin',
    email: 'admin@source.example',
    firstName: 'A',
    lastName: 'B',
    rootAdmin: true,
    has2fa: false,
  }
  const player = (n: number): SimUser => ({
    id: n + 1,
    uuid: random.uuid(),
    username: `player${n}`,
    email: `player${n}@players.example`,
    firstName: 'Player',
    lastName: `No ${n}`,
    rootAdmin: false,
    has2fa: false,
    ...(oddities ? ODD[n - 1] : {}),
  })
  return [admin, ...Array.from({ length: users }, (_, index) => player(index + 1))]
}
