import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Countdown, FailKind, Faults } from './options.ts'

/** What goes wrong now, and how much of it is left. */
export class FaultInjector {
  #faults: Faults
  #requests = 0

  constructor(faults: Faults) {
    this.#faults = faults
  }

  get faults(): Faults {
    return this.#faults
  }

  change(faults: Partial<Faults>): void {
    this.#faults = { ...this.#faults, ...faults }
  }

  /** Whether a fault that counts down hits now. */
  spend(fault: Countdown): boolean {
    const left = this.#faults[fault]
    if (left <= 0) return false
    this.change({ [fault]: left - 1 })
    return true
  }

  /** What becomes of a request to the panel; `undefined`: it is answered. */
  hit(request: IncomingMessage, path: string): FailKind | undefined {
    const { failEvery, failKind, failMethods, failLeft, failPath } = this.#faults
    if (failEvery === 0 || failLeft === 0) return undefined
    if (failMethods.length > 0 && !failMethods.includes(request.method ?? '')) return undefined
    if (!path.includes(failPath)) return undefined
    this.#requests++
    if (this.#requests % failEvery !== 0) return undefined
    if (failLeft !== null) this.change({ failLeft: failLeft - 1 })
    return failKind
  }
}

/** Ends a connection without an answer. */
export function reset(response: ServerResponse): void {
  response.socket?.resetAndDestroy()
  response.destroy()
}

/** Answers as what stands before a panel does when that is not there. */
export function sendFailure(response: ServerResponse, kind: Exclude<FailKind, 'lost' | 'cut'>): void {
  if (kind === 'hang') return
  if (kind === 'reset') {
    reset(response)
    return
  }
  response.setHeader('content-type', 'text/html')
  if (kind === 'html') {
    response.end('<!DOCTYPE html><title>One moment please</title>')
    return
  }
  response.statusCode = Number(kind)
  response.end(`<html><h1>${kind}</h1><p>nginx</p></html>`)
}
