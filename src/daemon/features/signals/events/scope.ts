import { EVENTS } from '../../../../shared/kernel/events.ts'
import { JobSummary } from '../../../../shared/kernel/job.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { type Clock, now } from '../../../../shared/kernel/time.ts'
import type { Caller, Credentials } from '../../../access/caller.ts'
import { fileSight, mayName, namesFiles, withoutFiles } from '../../../access/file-sight.ts'
import { serverPermissions, visibleServers } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import type { BusEvent } from '../../../core/bus.ts'
import type { Db } from '../../../db/db.ts'

/** What a viewer's rights are looked up by. */
interface ScopeDeps {
  readonly db: Db
  readonly clock: Clock
  readonly credentials: Credentials
}

/** What a caller may see, by what they may do now: rights that change while a stream is open hold from the next event on. */
export class Scope {
  readonly #deps: ScopeDeps
  readonly #first: Caller
  /** Servers that this viewer was shown something of: they get their deletion too, after which nothing relates them to it. */
  readonly #shown = new Set<string>()

  constructor(deps: ScopeDeps, caller: Caller) {
    this.#deps = deps
    this.#first = caller
  }

  /** Holds the permission that this type of event asks for, panel-wide. */
  async holds(event: BusEvent): Promise<boolean> {
    const caller = await this.#caller()
    return caller !== undefined && grants(caller.permissions, EVENTS[event.type].permission)
  }

  /** May read the server that the event is about. A deleted one is known to whom all servers are, to its owner, and to whom it was shown. */
  async sees(event: BusEvent): Promise<boolean> {
    const caller = await this.#caller()
    if (caller === undefined || event.serverId === null) return false
    const visible = await visibleServers(this.#at(), caller)
    if (visible === 'all') return true
    if (event.type === 'server_deleted') {
      if (this.#shown.delete(event.serverId)) return true
      if (visible.related !== null && event.data['ownerId'] === visible.related.userId) return true
    }
    return this.#mayRead(caller, event.serverId)
  }

  /** Holds what this type asks for on its server, where that is more than to read the server: alerts are for whom they are. */
  async mayKnow(event: BusEvent): Promise<boolean> {
    const { permission } = EVENTS[event.type]
    if (permission === 'server.read' || event.serverId === null) return true
    const caller = await this.#caller()
    if (caller === undefined) return false
    return (await serverPermissions(this.#at(), caller, event.serverId, [permission])).length > 0
  }

  /** What the viewer gets of an event that they may know: of files, those alone that they reach. `undefined`: nothing of it. */
  async cut(event: BusEvent): Promise<BusEvent | undefined> {
    const { type, serverId, data } = event
    if (serverId === null || (type !== 'server_files_changed' && type !== 'server_job_updated')) return event
    const caller = await this.#caller()
    if (caller === undefined) return undefined
    if (type === 'server_job_updated') {
      const { success, data: job } = JobSummary.safeParse(data['job'])
      if (success && !namesFiles(job, caller)) return event
      const sight = await fileSight(this.#at(), caller, serverId)
      if (sight === 'all') return event
      return success ? { ...event, data: { ...data, job: withoutFiles(job) } } : undefined
    }
    const sight = await fileSight(this.#at(), caller, serverId)
    if (sight === 'all') return event
    const folders = (data['folders'] as readonly string[]).filter((path) => mayName(sight, path, true)) // as EVENTS has it
    const named = ['path', 'from', 'to'].filter((field) => data[field] !== undefined)
    const shown = named.filter((field) => mayName(sight, String(data[field]), false))
    if (shown.length + folders.length === 0) return undefined
    const kept = Object.entries(data).filter(([field]) => !named.includes(field) || shown.includes(field))
    return { ...event, data: { ...Object.fromEntries(kept), folders } }
  }

  /** May read this server now. */
  async seesServer(serverId: string): Promise<boolean> {
    const caller = await this.#caller()
    return caller !== undefined && this.#mayRead(caller, serverId)
  }

  async #mayRead(caller: Caller, serverId: string): Promise<boolean> {
    const held = await serverPermissions(this.#at(), caller, serverId, ['server.read'])
    if (held.length === 0) this.#shown.delete(serverId)
    else this.#shown.add(serverId)
    return held.length > 0
  }

  #at(): At {
    return { q: this.#deps.db.read, now: now(this.#deps.clock) }
  }

  async #caller(): Promise<Caller | undefined> {
    const caller = await this.#deps.credentials.recheck(this.#first)
    return typeof caller === 'string' ? undefined : caller
  }
}
