import { isLoopbackHost } from '../../shared/platform/listener.ts'

/**
 * What is wrong with a daemon's address, as the rest of a sentence; `undefined` when it is fine. Plain http is for
 * loopback addresses, because the node's key travels in a header.
 */
export function urlProblem(url: string, allowInsecure: boolean): string | undefined {
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch {
    return 'must be a URL such as https://panel.example'
  }
  const plain = parsed.protocol === 'http:' || parsed.protocol === 'ws:'
  if (!plain && parsed.protocol !== 'https:' && parsed.protocol !== 'wss:') return 'must begin with https://'
  if (parsed.username !== '' || parsed.password !== '') return 'must not hold a user name or a password'
  if (plain && !allowInsecure && !isLoopbackHost(parsed.hostname)) {
    return 'must begin with https:// unless the host is this machine or allowInsecure is true (--insecure-http)'
  }
  return undefined
}

/** The address with the schemes of HTTP, for routes that are no WebSocket. */
export function httpUrl(url: string, path: string): URL {
  const target = new URL(path, url)
  if (target.protocol === 'ws:') target.protocol = 'http:'
  if (target.protocol === 'wss:') target.protocol = 'https:'
  return target
}
