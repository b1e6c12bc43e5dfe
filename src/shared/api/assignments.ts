import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { AssignmentId, NodeId, RoleId, UserId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { Node } from './nodes.ts'

/** Whom a node is assigned to. */
export const TargetType = z.enum(['user', 'role'])
export type TargetType = z.infer<typeof TargetType>

/** A node with all its servers, granted to a user or a role. */
export const NodeAssignment = z.object({
  id: AssignmentId,
  /** `null`: every node. */
  nodeId: NodeId.nullable(),
  nodeName: z.string().nullable(),
  userId: UserId.nullable(),
  username: z.string().nullable(),
  roleId: RoleId.nullable(),
  roleName: z.string().nullable(),
  assignedBy: UserId.nullable(),
  assignedAt: IsoTime,
  expiresAt: IsoTime.nullable(),
  source: TargetType,
})
export type NodeAssignment = z.infer<typeof NodeAssignment>

const Target = z.object({
  targetType: TargetType,
  targetId: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be an id'),
  /** When it ends; it cannot outlast what you hold yourself. */
  expiresAt: z.iso.datetime().nullish(),
})

export const listAccessibleNodes = defineEndpoint({
  id: 'nodes.accessible',
  tag: 'Nodes',
  summary: 'List the nodes that you may see, by name',
  method: 'GET',
  path: '/api/nodes/accessible',
  access: 'session',
  query: pageQuery().extend({ search: z.string().max(200).optional() }),
  response: z.array(Node),
  paged: true,
})

export const listNodeAssignments = defineEndpoint({
  id: 'nodes.assignments',
  tag: 'Nodes',
  summary: 'List to whom a node is assigned; assignments of every node are not among them',
  method: 'GET',
  path: '/api/nodes/:nodeId/assignments',
  access: { node: 'node.assign' },
  params: { nodeId: NodeId },
  query: pageQuery(),
  response: z.array(NodeAssignment),
  paged: true,
  errors: ['NODE_NOT_FOUND'],
})

export const assignNode = defineEndpoint({
  id: 'nodes.assign',
  tag: 'Nodes',
  summary: 'Assign a node with all rights on its servers, which you must hold yourself, to a user or a role',
  method: 'POST',
  path: '/api/nodes/:nodeId/assign',
  access: { node: 'node.assign' },
  params: { nodeId: NodeId },
  body: Target,
  response: NodeAssignment,
  status: 201,
  errors: ['NODE_NOT_FOUND', 'USER_NOT_FOUND', 'ROLE_NOT_FOUND', 'ASSIGNMENT_EXISTS', 'PERMISSION_DENIED'],
  audit: { action: 'node.assign' },
})

export const unassignNode = defineEndpoint({
  id: 'nodes.unassign',
  tag: 'Nodes',
  summary: 'Take an assignment of a node back',
  method: 'DELETE',
  path: '/api/nodes/:nodeId/assignments/:assignmentId',
  access: { node: 'node.assign' },
  params: { nodeId: NodeId, assignmentId: AssignmentId },
  response: NoData,
  errors: ['NODE_NOT_FOUND', 'ASSIGNMENT_NOT_FOUND'],
  audit: { action: 'node.unassign' },
})

export const assignEveryNode = defineEndpoint({
  id: 'nodes.assign_wildcard',
  tag: 'Nodes',
  summary: 'Assign every node, also those to come, to a user or a role; it takes the place of single assignments',
  method: 'POST',
  path: '/api/nodes/assign-wildcard',
  access: { panel: 'node.assign' },
  body: Target,
  response: NodeAssignment,
  status: 201,
  errors: ['USER_NOT_FOUND', 'ROLE_NOT_FOUND', 'ASSIGNMENT_EXISTS', 'PERMISSION_DENIED'],
  audit: { action: 'node.assign_wildcard' },
})

export const unassignEveryNode = defineEndpoint({
  id: 'nodes.unassign_wildcard',
  tag: 'Nodes',
  summary: 'Take the assignment of every node back',
  method: 'DELETE',
  path: '/api/nodes/assign-wildcard/:targetType/:targetId',
  access: { panel: 'node.assign' },
  params: { targetType: TargetType, targetId: Target.shape.targetId },
  response: NoData,
  errors: ['ASSIGNMENT_NOT_FOUND'],
  audit: { action: 'node.unassign_wildcard' },
})

/** A node that somebody reaches by assignments, with the assignments that reach it. */
const ReachedNode = z.object({
  id: NodeId,
  name: z.string(),
  hostname: z.string(),
  publicAddress: z.string(),
  isOnline: z.boolean(),
  assignments: z.array(NodeAssignment),
})
export type ReachedNode = z.infer<typeof ReachedNode>

const reached = {
  tag: 'Roles',
  method: 'GET',
  query: pageQuery(),
  response: z.array(ReachedNode),
  paged: true,
} as const

export const listRoleNodes = defineEndpoint({
  ...reached,
  id: 'roles.nodes',
  summary: 'List the nodes that are assigned to a role, by name',
  path: '/api/roles/:roleId/nodes',
  access: { panel: 'node.read' },
  params: { roleId: RoleId },
  errors: ['ROLE_NOT_FOUND'],
})

export const listUserNodes = defineEndpoint({
  ...reached,
  id: 'roles.nodes_of_user',
  summary: 'List the nodes that are assigned to a user or to one of their roles, by name',
  path: '/api/roles/users/:userId/nodes',
  access: { panel: 'node.read', orSelf: 'userId' },
  params: { userId: UserId },
  errors: ['USER_NOT_FOUND'],
})
