import { Refusal } from './answer.ts'
import type { Flavor } from './options.ts'
import { randomFrom } from './random.ts'
import type { SimUser, SimWorld } from './rows.ts'
import { RESOURCES, type Resource } from './view.ts'

/** The keys of the source. */
export interface SourceKeys {
  /** Of the administrator's account: good for both APIs. */
  readonly account: string
  /** Of the application API, with all rights. */
  readonly application: string
  readonly applicationReadOnly: string
  readonly applicationServersOnly: string
  /** Of the account of somebody who is no administrator. */
  readonly member: string
}

export type Api = 'application' | 'client'

const READ = 1
const WRITE = 2
type Rights = Readonly<Partial<Record<Resource, number>>>
const rights = (level: number, of: readonly Resource[] = RESOURCES): Rights =>
  Object.fromEntries(of.map((name) => [name, level]))

/** Who asks, and what the key may do. */
export class Caller {
  readonly user: SimUser
  /** `null`: a key of an account, which may do what its user may. */
  readonly #rights: Rights | null

  constructor(user: SimUser, rights: Rights | null) {
    this.user = user
    this.#rights = rights
  }

  get isAccount(): boolean {
    return this.#rights === null
  }

  mayRead(resource: Resource): boolean {
    return this.#may(resource, READ)
  }

  mayWrite(resource: Resource): boolean {
    return this.#may(resource, WRITE)
  }

  /** Refuses what the other API's keys are for. */
  enter(api: Api): void {
    if (api === 'client' ? !this.isAccount : !this.user.rootAdmin) throw forbidden()
  }

  #may(resource: Resource, level: number): boolean {
    return this.#rights === null || ((this.#rights[resource] ?? 0) & level) !== 0
  }
}

export const forbidden = (): Refusal => new Refusal(403, 'AccessDeniedHttpException', 'This action is unauthorized.')

const PREFIXES: Readonly<Record<Flavor, Readonly<Record<Api, string>>>> = {
  pterodactyl: { application: 'ptla_', client: 'ptlc_' },
  pelican: { application: 'papp_', client: 'pacc_' },
}

/** The keys of a source, and who calls with each. */
export function createKeys({ options, users }: SimWorld): { keys: SourceKeys; callers: ReadonlyMap<string, Caller> } {
  const [admin, member] = users
  if (admin === undefined) throw new Error('a source has an administrator')
  const random = randomFrom(`keys ${options.seed}`)
  const key = (api: Api): string => `${PREFIXES[options.flavor][api]}${random.text(43)}`
  const keys = {
    account: key('client'),
    application: key('application'),
    applicationReadOnly: key('application'),
    applicationServersOnly: key('application'),
    member: key('client'),
  }
  const callers = new Map([
    [keys.account, new Caller(admin, null)],
    [keys.application, new Caller(admin, rights(READ | WRITE))],
    [keys.applicationReadOnly, new Caller(admin, rights(READ))],
    [keys.applicationServersOnly, new Caller(admin, rights(READ | WRITE, ['servers']))],
    [keys.member, new Caller(member ?? admin, null)],
  ])
  return { keys, callers }
}
