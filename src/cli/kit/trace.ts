const SECRET_HEADERS = new Set(['authorization', 'cookie', 'set-cookie', 'x-node-api-key'])

/** Headers in one line, their secrets masked. */
export function maskedHeaders(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${SECRET_HEADERS.has(name.toLowerCase()) ? mask(value) : value}`)
    .join(', ')
}

/** A URL whose secrets, which only links from mails have, are masked. */
export function maskedUrl(url: string): string {
  return url.replace(/([?&]token=)[^&]+/g, '$1…')
}

/** Enough of a credential to recognise it by. */
export function mask(secret: string): string {
  return secret
    .replace(/(pak|pst|pnk|pdt)_[A-Za-z0-9]+_[A-Za-z0-9_-]+/g, '$1_…')
    .replace(/^(Bearer )(?!p\w\w_…).+$/, '$1…')
}
