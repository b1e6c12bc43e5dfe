import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Json, Stamps } from './columns.ts'

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

/** Rights beside roles: for single servers, for nodes, and on their way. */
export interface AccessTables {
  serverAccess: ServerAccessTable
  serverInvite: ServerInviteTable
  nodeAssignment: NodeAssignmentTable
  userInvite: UserInviteTable
}
