/** A request that nobody answers within 30 s fails, so that a test tells of it and does not stand still. */
export const patientFetch = (url: string, init?: RequestInit): Promise<Response> =>
  fetch(url, { ...init, signal: AbortSignal.timeout(30_000) })
