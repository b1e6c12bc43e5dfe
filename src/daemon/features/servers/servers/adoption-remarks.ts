import type { DoneRule, ServerSpec, StopRule } from '../../../../shared/protocol/server-spec.ts'

/** What of a value stands in a remark. */
const SHOWN_CHARACTERS = 80

/** What becomes of a server that is adopted by another template than the one that its node runs it by, in sentences. */
export function templateRemarks(before: ServerSpec, after: ServerSpec): string[] {
  const remarks: string[] = []
  const compare = (what: string, was: string, is: string): void => {
    if (was !== is) remarks.push(`${what}: ${is} by the template, was ${was}`)
  }
  compare('Stop', stopText(before.stop), stopText(after.stop))
  compare('Ready rules', rulesText(before.done), rulesText(after.done))
  if (before.stripAnsi !== after.stripAnsi && after.done.length > 0) {
    compare('Colours in lines that ready rules look at', ansiText(before), ansiText(after))
  }
  compare('Listens', before.listens ?? 'not said', after.listens ?? 'not said')
  compare('Binds all addresses', before.bindsAll === true ? 'yes' : 'no', after.bindsAll === true ? 'yes' : 'no')
  compare('User namespaces', allowedText(before), allowedText(after))
  const [was, is] = [before.install, after.install]
  if (was?.script !== is?.script || was?.entrypoint !== is?.entrypoint) {
    const change = is === null ? 'has none' : was === null ? 'has one, and the node none' : 'has another one'
    remarks.push(`Install script: the template ${change}; it counts when the server is installed again`)
  }
  return remarks
}

function stopText({ type, value, timeoutMs }: StopRule): string {
  return `${type === 'command' ? `"${shown(value)}" typed into its console` : value} (${timeoutMs / 1000} s)`
}

function rulesText(rules: readonly DoneRule[]): string {
  return rules.length === 0 ? 'none' : rules.map(({ kind, value }) => `${kind} "${shown(value)}"`).join(' or ')
}

function ansiText({ stripAnsi }: ServerSpec): string {
  return stripAnsi ? 'taken away' : 'kept'
}

function allowedText({ allowUserNamespaces }: ServerSpec): string {
  return allowUserNamespaces === true ? 'allowed' : 'not allowed'
}

function shown(value: string): string {
  return value.length <= SHOWN_CHARACTERS ? value : `${value.slice(0, SHOWN_CHARACTERS)}…`
}
