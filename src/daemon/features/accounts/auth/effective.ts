import { grants, type Permission, uncovered } from '../../../../shared/kernel/permissions.ts'

/**
 * What two sets grant both: each permission of the one that the other covers. A broad permission met by a scoped one
 * leaves the scoped one, so that a key with `server.read` of a user with `server.read:ID` reads that server alone.
 */
export function intersection(left: ReadonlySet<string>, right: ReadonlySet<string>): Set<string> {
  return new Set([...covered(left, right), ...covered(right, left)])
}

/** Whether a key with this scope may do that on the resource; `null`: whatever its user may. */
export function withinScope(scope: ReadonlySet<string> | null, permission: Permission, id: string): boolean {
  return scope === null || grants(scope, permission, id)
}

function covered(wanted: ReadonlySet<string>, held: ReadonlySet<string>): string[] {
  const missing = new Set(uncovered(held, wanted))
  return [...wanted].filter((text) => !missing.has(text))
}
