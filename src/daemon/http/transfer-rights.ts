import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Access } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import { now } from '../../shared/kernel/time.ts'
import type { Caller } from '../access/caller.ts'
import { permit } from '../access/permit.ts'
import type { HttpDeps } from './server.ts'

/** For what merely expires: nobody says so. */
const RECHECK_MS = 25_000

/** Ends requests that send or take bytes as soon as whoever made them may no longer do so: a slow one would last for hours. */
export interface TransferRights {
  /** Looks at the right of a request until its answer is done. */
  watch(access: Access, caller: Caller, under: { readonly request: FastifyRequest; readonly reply: FastifyReply }): void
  /** Has this looked at too, which refuses by a PanelError: what the access of an endpoint does not say. */
  also(request: FastifyRequest, look: Look): void
}

/** What is looked at for whoever makes a request, as they are now. */
export type Look = (present: Caller) => Promise<unknown>

/** Rights are looked at again whenever a credential or a grant changes, and from time to time. */
export function createTransferRights({
  credentials,
  db,
  clock,
  stopping,
  log,
}: Pick<HttpDeps, 'credentials' | 'db' | 'clock' | 'stopping' | 'log'>): TransferRights {
  const open = new Set<() => Promise<void>>()
  const looks = new WeakMap<FastifyRequest, Look>()
  const checkAll = (): void => {
    for (const check of open) {
      check().catch((err: unknown) => log.warn({ err }, 'cannot look at the rights of a transfer, trying again later'))
    }
  }
  stopping.addEventListener('abort', credentials.onChange(checkAll))
  let isLooking = false
  const look = async (): Promise<void> => {
    if (isLooking) return
    isLooking = true
    while (open.size > 0 && !stopping.aborted) {
      await clock.sleep(RECHECK_MS, stopping)
      checkAll()
    }
    isLooking = false
  }
  return {
    also: (request, onlyWhile) => void looks.set(request, onlyWhile),
    watch: (access, caller, { request, reply }) => {
      const params = request.params as Record<string, string> // as in admit
      const check = async (): Promise<void> => {
        const present = await credentials.recheck(caller)
        if (typeof present !== 'string') {
          try {
            await permit({ q: db.read, now: now(clock) }, access, present, params)
            await looks.get(request)?.(present)
            return
          } catch (error) {
            if (!(error instanceof PanelError)) throw error
          }
        }
        // What was sent so far is as when the connection breaks; who tries again learns why.
        reply.raw.destroy()
      }
      open.add(check)
      reply.raw.once('close', () => open.delete(check))
      void look()
    },
  }
}
