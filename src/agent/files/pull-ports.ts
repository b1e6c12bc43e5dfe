/** Where the web answers: what else listens on a machine, such as mail or a database, is not to be asked by a member of a server. */
const WEB_PORTS: ReadonlySet<number> = new Set([80, 443, 8080, 8443])
const MOST_PORT = 65_535

/** Where files of servers may be fetched from beside public addresses at the ports of the web. */
export interface PullConfig {
  /** Ranges such as `10.0.0.0/8`; absent: none. */
  readonly allowedRanges?: readonly string[]
  /** Ports such as `8000`, or `8000-8999`; absent: those of the web alone. */
  readonly allowedPorts?: readonly string[]
}

/** The first and the last port of `8000` or `8000-8999`; `undefined` for any other text. */
export function portsOf(text: string): readonly [first: number, last: number] | undefined {
  const [from = '', to = from, ...more] = text.split('-')
  const [first, last] = [Number(from), Number(to)]
  const areDigits = [from, to].every((part) => part !== '' && [...part].every((char) => char >= '0' && char <= '9'))
  if (!areDigits || more.length > 0 || first < 1 || last < first || last > MOST_PORT) return undefined
  return [first, last]
}

/** Whether files may be fetched from a port: one of the web, or of those that the machine's owner has allowed beside. */
export function isPullPort(port: number, allowed: readonly string[]): boolean {
  if (WEB_PORTS.has(port)) return true
  return allowed.some((text) => {
    const ports = portsOf(text)
    return ports !== undefined && port >= ports[0] && port <= ports[1]
  })
}
