import type { NetworkInterfaceInfo } from 'node:os'
import { expect, it } from 'vitest'
import { reachableUrl } from '../../src/daemon/start/reachable-url.ts'

const at = (address: string, internal = false): NetworkInterfaceInfo => {
  const rest = { address, internal, netmask: '', mac: '', cidr: null }
  return address.includes(':') ? { ...rest, family: 'IPv6', scopeid: 0 } : { ...rest, family: 'IPv4' }
}
const lo = [at('127.0.0.1', true), at('::1', true)]

it.each([
  { listens: 'http://127.0.0.1:7420', has: [at('10.0.0.5')], reached: 'http://127.0.0.1:7420' },
  { listens: 'https://192.0.2.4:1', has: [at('10.0.0.5')], reached: 'https://192.0.2.4:1' },
  {
    listens: 'https://0.0.0.0:7490',
    has: [at('fe80::1'), at('fd00::5'), at('10.0.0.5')],
    reached: 'https://10.0.0.5:7490',
  },
  { listens: 'https://[::]:7490', has: [at('fe80::1'), at('fd00::5')], reached: 'https://[fd00::5]:7490' },
])('a daemon at $listens is reached at $reached', ({ listens, has, reached }) => {
  expect(reachableUrl(listens, { lo, eth0: has })).toBe(reached)
})

it('a daemon on all addresses of a machine that has none is reached by its name', () => {
  const url = new URL(reachableUrl('https://0.0.0.0:7490', { lo }))
  expect(['0.0.0.0', '127.0.0.1', '']).not.toContain(url.hostname)
  expect(url.port).toBe('7490')
})
