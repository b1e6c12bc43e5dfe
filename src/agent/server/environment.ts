import { GIVEN_VARIABLES, placeholderVariable } from '../../shared/kernel/placeholders.ts'
import { StartupLineProblem, shellLine } from '../../shared/kernel/startup-line.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { AgentFailure } from '../failure.ts'

/** Where a server's processes find programs. */
export const SERVER_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/games:/usr/games'

/**
 * The environment of a server's processes: a clean list, the template's variables, and what the agent knows. Nothing of
 * the agent's own environment gets in. Names of the agent win over variables of the same name. `listenIp`: what it is to listen on in
 * the place of the address that it is reached at.
 */
export function serverEnvironment(spec: ServerSpec, home: string, listenIp?: string | null): Record<string, string> {
  const primary = spec.ports.find((port) => port.primary) ?? spec.ports[0]
  return {
    ...spec.env,
    PATH: SERVER_PATH,
    HOME: home,
    USER: 'container',
    LOGNAME: 'container',
    LANG: 'C.UTF-8',
    TZ: spec.timeZone ?? ownTimeZone(),
    TERM: 'dumb',
    SERVER_IP: listenIp ?? primary?.ip ?? '0.0.0.0',
    SERVER_PORT: String(primary?.port ?? 0),
    SERVER_MEMORY: String(spec.limits.memoryMb),
    P_SERVER_UUID: spec.uuid,
    PANEL_SERVER_ID: spec.serverId,
    // Games that are written for Node run with the one that is certainly there.
    PANEL_NODE: process.execPath,
    STARTUP: startupCommand(spec),
  }
}

/** The zone of this machine, as its clock is set. */
function ownTimeZone(): string {
  return new Intl.DateTimeFormat('en').resolvedOptions().timeZone
}

/**
 * The startup line as a shell command: `{{NAME}}` becomes a variable of the shell, and its value one word as it is. `{{server.build.default.port}}` and its kin name what the agent knows under another name. Anything
 * unknown becomes nothing, as an unset variable does in a shell: a literal `{{…}}` would reach the game as an argument.
 */
export function startupCommand(spec: ServerSpec): string {
  try {
    return shellLine(spec.startup, (name) => variableOf(spec, name))
  } catch (error) {
    if (!(error instanceof StartupLineProblem)) throw error
    // The daemon refuses such lines; this one was saved before it did.
    throw new AgentFailure('BAD_REQUEST', `The startup line ${error.message}; edit it in the template or at the server`)
  }
}

/** What configuration files may say of the further ports, by the whole names of the placeholders. */
export function portPlaceholders({ ports }: Pick<ServerSpec, 'ports'>): Record<string, string> {
  return Object.fromEntries(
    ports.flatMap(({ name, ip, port }) =>
      name === undefined
        ? []
        : [
            [`server.allocations.${name}.port`, String(port)],
            [`server.allocations.${name}.ip`, ip],
          ],
    ),
  )
}

function variableOf(spec: ServerSpec, name: string): string | undefined {
  const variable = placeholderVariable(name)
  if (Object.hasOwn(spec.env, variable)) return variable
  const further = spec.ports.find((port) => name === `server.allocations.${port.name}.port`)
  if (further?.variable !== undefined) return further.variable
  return GIVEN_VARIABLES.has(variable) ? variable : undefined
}
