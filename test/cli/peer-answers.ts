const AT = '2026-01-01T00:00:00.000Z'

/** Who the peer says is signed in. */
export const me = () => ({
  id: 'usr_1',
  email: 'eve@example.org',
  username: 'eve',
  name: 'Eve',
  firstName: null,
  lastName: null,
  image: null,
  role: 'User',
  permissions: ['server.read'],
  createdAt: AT,
  credential: { kind: 'apiKey', id: 'key_1', expiresAt: null },
})

/** The key that the peer makes. */
export const newKey = (key: string) => ({
  id: 'key_1',
  name: 'cli@test',
  prefix: 'pak',
  start: 'pak_01k0',
  enabled: true,
  expiresAt: AT,
  lastRequest: null,
  requestCount: 0,
  rateLimitEnabled: true,
  rateLimitMax: 1200,
  rateLimitTimeWindow: 60_000,
  allPermissions: true,
  permissions: [],
  metadata: null,
  userId: 'usr_1',
  user: { id: 'usr_1', username: 'eve', email: 'eve@example.org' },
  createdAt: AT,
  updatedAt: AT,
  key,
})
