/**
 * Cuts a stream of bytes into lines of text. Bytes and not text are buffered, so that a character may arrive in two
 * chunks. A line longer than `limit` bytes is reported once and dropped up to its end; memory stays bounded.
 */
export function createLineReader({ limit, onLine, onTooLong }) {
  let kept = Buffer.alloc(0)
  let dropping = false
  return (chunk) => {
    let rest = chunk
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
      const line = Buffer.concat([kept, rest.subarray(0, end)])
      rest = rest.subarray(end + 1)
      kept = Buffer.alloc(0)
      if (dropping) dropping = false
      else if (line.length > limit) onTooLong()
      else onLine(line.toString('utf8').replace(/\r$/, ''))
    }
    if (dropping) return
    kept = Buffer.concat([kept, rest])
    if (kept.length <= limit) return
    kept = Buffer.alloc(0)
    dropping = true
    onTooLong()
  }
}

/** Text from outside made fit for one line of a log or a terminal: no control, direction or separator characters. */
export function clean(text, maxLength) {
  const plain = text.normalize('NFC').replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+/gu, ' ')
  return Array.from(plain.trim()).slice(0, maxLength).join('')
}
