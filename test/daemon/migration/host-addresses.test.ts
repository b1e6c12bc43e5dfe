import { expect, it } from 'vitest'
import { addressesOf } from '../../../src/daemon/features/operations/migration/steps/host-addresses.ts'
import { StepDelay } from '../../../src/daemon/features/operations/migration/steps/step.ts'

const failing = (code: string) => () => Promise.reject(Object.assign(new Error(`getaddrinfo ${code}`), { code }))

it('a name that is not known has no addresses, and one that cannot be looked up now is tried again', async () => {
  expect(await addressesOf('127.0.0.1')).toEqual(['127.0.0.1'])
  for (const code of ['ENOTFOUND', 'ENODATA']) expect(await addressesOf('db.example.org', failing(code))).toEqual([])
  for (const code of ['EAI_AGAIN', 'EAI_FAIL', 'ECONNREFUSED', 'ETIMEOUT']) {
    const failure = await addressesOf('db.example.org', failing(code)).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(StepDelay)
    expect(failure).toMatchObject({ code: 'DATABASE_UNREACHABLE', message: expect.stringContaining(code) })
  }
})
