import type { z } from 'zod'
import type { Server } from '../../../../shared/api/servers.ts'
import type { NewTemplate, TemplatePort } from '../../../../shared/api/template-fields.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import type { Holder } from '../../../access/permit.ts'
import { frozen } from '../../../core/frozen.ts'
import { portsOfTemplate } from './further-ports.ts'
import type { ServerRow } from './rows.ts'
import { definitionOf } from './view.ts'

/** What the answer about a server says of its template. */
export interface TemplateView {
  readonly shown: z.input<typeof Server>['template']
  /** The same in rows of lists. */
  readonly brief: { readonly id: string; readonly name: string }
  /** The variables whose values the caller is not shown. */
  readonly masked: ReadonlySet<string>
  readonly listens: NewTemplate['listens']
  readonly ports: ReadonlyMap<string, TemplatePort>
}

type TemplateRow = Pick<ServerRow, 'templateId' | 'templateName' | 'templateDefinition' | 'pinnedAt'>

/** Templates that are cached, each at most twice: for operators and for others. Pinned ones count by when that was. */
const MAX_CACHED = 1000

/** Templates as answers about servers show them. Many servers have few templates: each is parsed and masked once per version. */
export class TemplateViews {
  readonly #views = new Map<string, { readonly row: TemplateRow; readonly view: TemplateView }>()

  of(
    { templateId, templateName, templateDefinition, pinnedAt }: TemplateRow,
    caller: Pick<Holder, 'permissions'>,
  ): TemplateView {
    const operator = grants(caller.permissions, 'admin.write')
    const key = `${operator} ${templateId} ${pinnedAt ?? ''}`
    const known = this.#views.get(key)
    if (known?.row.templateDefinition === templateDefinition && known.row.templateName === templateName) {
      return known.view
    }
    const row = { templateId, templateName, templateDefinition, pinnedAt }
    const view = viewOf(row, operator)
    this.#views.delete(key)
    this.#views.set(key, { row, view })
    const [oldest] = this.#views.keys()
    if (this.#views.size > MAX_CACHED && oldest !== undefined) this.#views.delete(oldest)
    return view
  }
}

function viewOf(row: TemplateRow, operator: boolean): TemplateView {
  const template = definitionOf(row)
  const masked = maskedVariables(template.variables, operator)
  const shown = frozen({
    id: row.templateId,
    name: row.templateName,
    image: template.image,
    images: template.images,
    defaultImage: template.defaultImage,
    startup: template.startup,
    startupCommands: template.startupCommands,
    stopCommand: template.stopCommand,
    console: template.console,
    features: template.features,
    logLevels: template.logLevels,
    variables: template.variables.map((variable) =>
      masked.has(variable.name) && variable.default !== '' ? { ...variable, default: SECRET_MASK } : variable,
    ),
  })
  const ports = new Map(portsOfTemplate(template).map((port) => [port.name, port]))
  const brief = frozen({ id: row.templateId, name: row.templateName })
  return { shown, brief, masked, listens: template.listens, ports }
}

/** Secrets are masked for everybody, variables that members may not see for all but operators. */
function maskedVariables(variables: NewTemplate['variables'], operator: boolean): ReadonlySet<string> {
  return new Set(
    variables.filter(({ secret, userViewable }) => secret || (!userViewable && !operator)).map(({ name }) => name),
  )
}
