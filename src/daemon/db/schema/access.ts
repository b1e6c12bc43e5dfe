import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

/** What a user who is not its owner may do with one server. */
interface ServerAccessTable extends Stamps {
  id: string
  serverId: string
  userId: string
  permissions: Json
  /** Patterns of the files that the member is held to; `null`: to none. */
  filePaths: Json | null
  /** `null`: without end. */
  expiresAt: IsoTime | null
}

/** An invitation to become a member of a server; open until it is accepted, cancelled or expired. */
interface ServerInviteTable {
  id: string
  serverId: string
  /** In lower case. */
  email: string
  permissions: Json
  filePaths: Json | null
  tokenHash: string
  invitedByUserId: string
  createdAt: IsoTime
  expiresAt: IsoTime
  acceptedAt: IsoTime | null
  cancelledAt: IsoTime | null
}

/** A node with all its servers, granted to a user or to a role. */
interface NodeAssignmentTable {
  id: string
  /** `null`: every node. */
  nodeId: string | null
  /** Exactly one of the two is set. */
  userId: string | null
  roleId: string | null
  assignedBy: string | null
  assignedAt: IsoTime
  /** `null`: without end. */
  expiresAt: IsoTime | null
}

/** The one-time link by which an invited account gets its first password. */
interface UserInviteTable {
  id: string
  userId: string
  tokenHash: string
  createdAt: IsoTime
  expiresAt: IsoTime
}

/** What stands for a password at the SSH server of a node, for one user and one server. */
interface SftpTokenTable {
  id: string
  userId: string
  serverId: string
  /** Which it was made with, and goes with; `null`: by a person who was signed in. */
  apiKeyId: string | null
  /** SHA-256 in hex. */
  tokenHash: string
  ttlMs: number
  expiresAt: IsoTime
  createdAt: IsoTime
  lastUsedAt: IsoTime | null
}

/** Somebody who has come in over SSH; the row goes with the end. */
interface SftpSessionTable {
  id: string
  userId: string
  serverId: string
  nodeId: string
  method: 'password' | 'token' | 'key'
  /** The id of the token or key; of a password the SHA-256 of its hash, which is another one after each change. */
  credential: string
  isReadOnly: Flag
  ipAddress: string
  client: string | null
  createdAt: IsoTime
  /** Why its agent is to end it. */
  endedBecause: string | null
}

/** Rights beside roles: for single servers, for nodes, and on their way. */
export interface AccessTables {
  serverAccess: ServerAccessTable
  serverInvite: ServerInviteTable
  nodeAssignment: NodeAssignmentTable
  userInvite: UserInviteTable
  sftpToken: SftpTokenTable
  sftpSession: SftpSessionTable
}
