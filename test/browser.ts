/** What a page came to: the address where no further redirect was followed, and its answer if it was asked for. */
export interface Arrived {
  readonly url: URL
  readonly status: number
  readonly body: string
}

/** As much of a browser as a sign-in needs: it keeps cookies by origin and follows redirects. */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>()

  /** Goes to an address and on to where it is sent, but not to addresses that `stop` names; those are where it arrives. */
  async go(address: string, stop: (url: URL) => boolean = () => false): Promise<Arrived> {
    let url = new URL(address)
    for (let hops = 0; hops < 20; hops++) {
      if (stop(url)) return { url, status: 0, body: '' }
      const response = await fetch(url, { redirect: 'manual', headers: { cookie: this.cookiesFor(url.origin) } })
      this.take(url.origin, response.headers)
      const location = response.headers.get('location')
      if (location === null) return { url, status: response.status, body: await response.text() }
      await response.body?.cancel()
      url = new URL(location, url)
    }
    throw new Error(`no end of redirects at ${url.href}`)
  }

  /** Remembers the cookies of an answer that a page's script got. */
  take(origin: string, headers: Headers): void {
    const jar = this.#cookies.get(origin) ?? new Map<string, string>()
    this.#cookies.set(origin, jar)
    for (const line of headers.getSetCookie()) {
      const [pair = ''] = line.split(';')
      const at = pair.indexOf('=')
      const value = pair.slice(at + 1)
      if (value === '' || /expires=Thu, 01 Jan 1970/i.test(line)) jar.delete(pair.slice(0, at))
      else jar.set(pair.slice(0, at), value)
    }
  }

  cookiesFor(origin: string): string {
    return [...(this.#cookies.get(origin) ?? [])].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  /** The value of a cookie. */
  cookie(origin: string, name: string): string | undefined {
    return this.#cookies.get(origin)?.get(name)
  }
}
