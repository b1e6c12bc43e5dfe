import { z } from 'zod'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { canonicalIp, isUnspecified } from './addresses.ts'

/** Longer lists help nobody. */
const NAMED = 10

/** What an address of a node has to be, with those that its agent has reported, or else those that people gave it. */
export async function oneOfItsAddresses(q: Queries, nodeId: string): Promise<string> {
  const node = await q
    .selectFrom('node')
    .select(['addresses', 'publicAddress', 'defaultIp'])
    .where('id', '=', nodeId)
    .executeTakeFirst()
  if (node === undefined) return 'must be one address of the node'
  const reported = parseJson(z.array(z.string()), node.addresses)
  const known = reported.length > 0 ? reported : [node.defaultIp, node.publicAddress]
  const ips = [...new Set(known.flatMap((text) => canonicalIp(text) ?? []))].filter((ip) => !isUnspecified(ip))
  if (ips.length === 0) return 'must be one address of the node'
  const more = ips.length > NAMED ? ` and ${ips.length - NAMED} more` : ''
  return `must be one address of the node: ${ips.slice(0, NAMED).join(', ')}${more}`
}
