import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface UserTable extends Stamps {
  id: string
  /** In lower case. */
  email: string
  username: string
  firstName: string | null
  lastName: string | null
  /** Argon2id in PHC form; `null`: no sign-in by password. */
  passwordHash: string | null
  emailVerified: Flag
  banned: Flag
  banReason: string | null
  banExpires: IsoTime | null
  lastSuccessfulLogin: IsoTime | null
}

interface RoleTable extends Stamps {
  id: string
  name: string
  description: string | null
  permissions: Json
  /** The built-in Administrator role. */
  protected: Flag
}

interface UserRoleTable {
  userId: string
  roleId: string
}

interface SessionTable extends Stamps {
  id: string
  userId: string
  /** SHA-256 of the token's secret, in hex. */
  secretHash: string
  ipAddress: string | null
  userAgent: string | null
  persistent: Flag
  expiresAt: IsoTime
}

interface ApiKeyTable extends Stamps {
  id: string
  userId: string
  name: string
  /** The first characters of the key, to recognise it by. */
  start: string
  secretHash: string
  enabled: Flag
  expiresAt: IsoTime | null
  lastRequest: IsoTime | null
  requestCount: number
  rateLimitEnabled: Flag
  rateLimitMax: number
  rateLimitTimeWindow: number
  allPermissions: Flag
  permissions: Json
  metadata: Json | null
}

/** Failed sign-ins by account and address; `lockedUntil` set: a lockout. */
interface AuthLockoutTable extends Stamps {
  id: string
  /** What was typed, in lower case; '' for the row of an address as a whole. */
  email: string
  ipAddress: string
  userAgent: string | null
  failureCount: number
  /** How often it was locked in a row; each doubles the duration. */
  lockCount: number
  firstFailedAt: IsoTime
  lastFailedAt: IsoTime
  lockedUntil: IsoTime | null
}

/** Who may do what: people, roles, and how they sign in. */
export interface AccountsTables {
  user: UserTable
  role: RoleTable
  userRole: UserRoleTable
  session: SessionTable
  apiKey: ApiKeyTable
  authLockout: AuthLockoutTable
}
