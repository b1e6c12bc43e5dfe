import type { NewTemplate, TemplatePort } from '../../../../shared/api/template-fields.ts'
import type { PortUse } from '../../fleet/nodes/allocation-claims.ts'
import type { ServerRow } from './rows.ts'

/** A further port of a server, as its row is read. */
export interface FurtherPort extends PortUse {
  readonly id: string
  readonly ip: string
  readonly port: number
  readonly alias: string | null
}

/** The ports of a stored template; one that was stored before the field was there does not have it. */
export function portsOfTemplate(template: { readonly ports?: NewTemplate['ports'] }): readonly TemplatePort[] {
  return template.ports ?? []
}

/** The further ports in a server's row, by number. */
export function furtherPortsOf({ furtherPorts }: Pick<ServerRow, 'furtherPorts'>): readonly FurtherPort[] {
  if (furtherPorts === null) return NONE
  const found = JSON.parse(furtherPorts) as FurtherPort[] // made by the query of the row
  return found.sort((a, b) => a.port - b.port || (a.ip < b.ip ? -1 : 1))
}

const NONE: readonly FurtherPort[] = []
