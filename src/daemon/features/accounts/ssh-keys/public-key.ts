import { createPublicKey, hash } from 'node:crypto'

/** A public key of SSH, as it is kept. */
export interface PublicKey {
  readonly type: string
  /** Type and key, without a comment. */
  readonly text: string
  /** `SHA256:…`, as `ssh-keygen -l` shows it. */
  readonly fingerprint: string
  readonly comment: string
}

const MOST_COMMENT = 100
const LEAST_RSA_BITS = 2048
const MOST_RSA_BITS = 16_384
const CURVES: Readonly<Record<string, { readonly name: string; readonly jwk: string; readonly bytes: number }>> = {
  'ecdsa-sha2-nistp256': { name: 'nistp256', jwk: 'P-256', bytes: 32 },
  'ecdsa-sha2-nistp384': { name: 'nistp384', jwk: 'P-384', bytes: 48 },
  'ecdsa-sha2-nistp521': { name: 'nistp521', jwk: 'P-521', bytes: 66 },
}
const TYPES = ['ssh-ed25519', ...Object.keys(CURVES), 'ssh-rsa']

/** Reads one line as in `id_ed25519.pub`. Answers what is wrong with it as a sentence. */
export function readPublicKey(line: string): PublicKey | string {
  const text = line.trim()
  if (text.includes('PRIVATE KEY'))
    return 'is a private key, which nobody but you may have: give the file that ends in .pub'
  if (/[\r\n]/.test(text)) return 'must be one line, as in a file that ends in .pub'
  const [type = '', base64 = '', ...rest] = text.split(/[ \t]+/)
  if (type.startsWith('sk-')) return 'is a key of a security key, which nodes cannot verify yet: use one of ssh-ed25519'
  if (!TYPES.includes(type)) return `must begin with the type of the key, one of ${TYPES.join(', ')}`
  if (!/^[A-Za-z0-9+/]{16,}={0,2}$/.test(base64)) return 'must have the key in base64 after its type'
  const blob = Buffer.from(base64, 'base64')
  const problem = problemOf(type, blob)
  if (problem !== undefined) return problem
  const comment = rest.join(' ').slice(0, MOST_COMMENT).trim()
  return { type, text: `${type} ${blob.toString('base64')}`, fingerprint: fingerprintOf(blob), comment }
}

/** The fingerprint of a key in the form of SSH. */
export function fingerprintOf(blob: Uint8Array): string {
  return `SHA256:${hash('sha256', blob, 'base64').replaceAll('=', '')}`
}

function problemOf(type: string, blob: Buffer): string | undefined {
  const parts = partsOf(blob)
  if (parts === undefined || parts[0]?.toString('latin1') !== type)
    return 'is damaged: what is in it does not fit its type'
  try {
    if (type === 'ssh-rsa') return rsaProblem(parts)
    const curve = CURVES[type]
    if (curve !== undefined) return curveProblem(parts, curve)
    const [, point = Buffer.alloc(0)] = parts
    if (parts.length !== 2 || point.length !== 32) return 'is damaged'
    createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x: point.toString('base64url') } })
    return undefined
  } catch {
    return 'is damaged: it is no key of its type' // what OpenSSL says of it means nothing to people
  }
}

function rsaProblem([, exponent, modulus, ...more]: readonly Buffer[]): string | undefined {
  if (exponent === undefined || modulus === undefined || more.length > 0) return 'is damaged'
  const number = BigInt(`0x0${modulus.toString('hex')}`)
  const bits = number.toString(2).length
  if (bits < LEAST_RSA_BITS)
    return `has ${bits} bits: an RSA key must have at least ${LEAST_RSA_BITS}; better make an ed25519 one`
  if (bits > MOST_RSA_BITS) return `has ${bits} bits: an RSA key may have at most ${MOST_RSA_BITS}`
  createPublicKey({
    format: 'jwk',
    key: { kty: 'RSA', n: unsigned(modulus).toString('base64url'), e: unsigned(exponent).toString('base64url') },
  })
  return undefined
}

function curveProblem(
  [, name, point, ...more]: readonly Buffer[],
  curve: { readonly name: string; readonly jwk: string; readonly bytes: number },
): string | undefined {
  const { bytes, jwk } = curve
  const isWhole = point?.[0] === 4 && point.length === 1 + 2 * bytes && more.length === 0
  if (point === undefined || name?.toString('latin1') !== curve.name || !isWhole) return 'is damaged'
  const [x, y] = [point.subarray(1, 1 + bytes), point.subarray(1 + bytes)]
  createPublicKey({
    format: 'jwk',
    key: { kty: 'EC', crv: jwk, x: x.toString('base64url'), y: y.toString('base64url') },
  })
  return undefined
}

/** The strings that a key is made of; `undefined` when their lengths do not add up. */
function partsOf(blob: Buffer): Buffer[] | undefined {
  const parts: Buffer[] = []
  let at = 0
  while (at + 4 <= blob.length && parts.length < 8) {
    const length = blob.readUInt32BE(at)
    at += 4
    if (length > blob.length - at) return undefined
    parts.push(blob.subarray(at, at + length))
    at += length
  }
  return at === blob.length ? parts : undefined
}

function unsigned(number: Buffer): Buffer {
  let at = 0
  while (at < number.length - 1 && number[at] === 0) at++
  return number.subarray(at)
}
