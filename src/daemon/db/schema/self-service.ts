import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json } from './columns.ts'

interface UserPreferencesTable {
  userId: string
  preferences: Json
  updatedAt: IsoTime
}

interface UserAvatarTable {
  userId: string
  contentType: string
  /** Changes with the content; stands in the picture's URL so that no cache shows the old one. */
  tag: string
  content: Uint8Array
  updatedAt: IsoTime
}

interface TwoFactorTable {
  userId: string
  /** Sealed by the vault. */
  secret: string
  /** `null` until the first code was right: before that nothing is asked at sign-in. */
  confirmedAt: IsoTime | null
  /** The time step of the newest code that was used; no code of that step or an earlier one is taken again. */
  lastStep: number
  createdAt: IsoTime
}

interface RecoveryCodeTable {
  userId: string
  /** SHA-256 in hex; the row goes with its use. */
  codeHash: string
}

/** A sign-in whose password was right and whose second factor is still to come. */
interface LoginChallengeTable {
  id: string
  userId: string
  tokenHash: string
  persistent: Flag
  expiresAt: IsoTime
  createdAt: IsoTime
}

/** What a mail lets its reader do, once. */
interface MailedTokenTable {
  id: string
  userId: string
  purpose: 'reset' | 'verify'
  /** Where it was sent: good only while this is the account's address. */
  email: string
  tokenHash: string
  expiresAt: IsoTime
  createdAt: IsoTime
}

/** A key by which its user comes in over SSH. */
interface SshKeyTable {
  id: string
  userId: string
  name: string
  type: string
  /** Type and key, without a comment. */
  publicKey: string
  fingerprint: string
  isReadOnly: Flag
  createdAt: IsoTime
  lastUsedAt: IsoTime | null
}

/** What people decide about their own accounts. */
export interface SelfServiceTables {
  userPreferences: UserPreferencesTable
  userAvatar: UserAvatarTable
  twoFactor: TwoFactorTable
  recoveryCode: RecoveryCodeTable
  loginChallenge: LoginChallengeTable
  mailedToken: MailedTokenTable
  sshKey: SshKeyTable
}
