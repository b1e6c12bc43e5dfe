// Private keys as OpenSSH writes them: https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.key. The library that speaks SSH does
// this too, but loading it takes 90 ms and 14 MB, and most nodes are seldom asked for files.
import { createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto'

const TYPE = 'ssh-ed25519'
const MAGIC = Buffer.from('openssh-key-v1\0', 'latin1')
const FRAME = /^-----BEGIN OPENSSH PRIVATE KEY-----\r?\n([A-Za-z0-9+/=\s]+)\r?\n-----END OPENSSH PRIVATE KEY-----$/
/** What stands before the seed of an Ed25519 key in PKCS #8 (RFC 8410). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')
const BEYOND = 'the key is shorter than it says'
const BLOCK_BYTES = 8

/** A new Ed25519 key, unencrypted, as text. */
export function newKey(comment: string): string {
  const { d, x } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const [seed, point] = [fromJwk(d), fromJwk(x)]
  const check = randomBytes(4) // both times the same: whoever decrypts sees that the password was right
  const secret = Buffer.concat([
    ...[check, check, publicBlob(point)],
    ...[field(Buffer.concat([seed, point])), field(comment)],
  ])
  const body = Buffer.concat([
    ...[MAGIC, field('none'), field('none'), field(''), uint32(1)],
    ...[field(publicBlob(point)), field(padded(secret))],
  ])
  const lines = body.toString('base64').replace(/.{1,70}/g, '$&\n')
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}-----END OPENSSH PRIVATE KEY-----\n`
}

/**
 * The public half as SSH sends it. Throws for what is no unencrypted Ed25519 key, or whose halves do not belong together. It is as strict as the library: what
 * passes here must not be refused when the first connection comes.
 */
export function publicHalf(text: string): Buffer {
  const body = FRAME.exec(text.trim())?.[1]
  if (body === undefined) throw new Error('it is no private key of OpenSSH')
  const read = reader(Buffer.from(body, 'base64'))
  if (!read.bytes(MAGIC.length).equals(MAGIC)) throw new Error('it is no private key of OpenSSH')
  const [cipher, derivation, options] = [read.field(), read.field(), read.field()]
  if (`${cipher} ${derivation} ${options}` !== 'none none ') throw new Error('it is encrypted')
  if (read.uint32() !== 1) throw new Error('it is not one key')
  const blob = read.field()
  const secret = reader(read.field())
  const checks = [secret.uint32(), secret.uint32()]
  if (checks[0] !== checks[1]) throw new Error('it is damaged')
  if (secret.field().toString() !== TYPE) throw new Error(`it is not of the type ${TYPE}`)
  const point = secret.field()
  const pair = secret.field()
  const halves = [publicBlob(point), publicBlob(pair.subarray(32)), publicBlob(pointOf(pair.subarray(0, 32)))]
  if (halves.some((half) => !half.equals(blob))) throw new Error('its halves do not belong together')
  secret.field() // the comment
  if (!isPadding(secret.rest()) || read.rest().length > 0) throw new Error('it is damaged')
  return blob
}

function publicBlob(point: Buffer): Buffer {
  return Buffer.concat([field(TYPE), field(point)])
}

/** The point of a seed. */
function pointOf(seed: Buffer): Buffer {
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' })
  return fromJwk(createPublicKey(key).export({ format: 'jwk' }).x)
}

function fromJwk(value: string | undefined): Buffer {
  return Buffer.from(value ?? '', 'base64url')
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function field(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([uint32(bytes.length), bytes])
}

function padded(secret: Buffer): Buffer {
  const missing = (BLOCK_BYTES - (secret.length % BLOCK_BYTES)) % BLOCK_BYTES
  return Buffer.concat([secret, Buffer.from(Array.from({ length: missing }, (_, index) => index + 1))])
}

function isPadding(bytes: Buffer): boolean {
  return bytes.length < 255 && bytes.every((byte, index) => byte === index + 1)
}

function reader(from: Buffer) {
  let at = 0
  const bytes = (count: number): Buffer => {
    if (count > from.length - at) throw new Error(BEYOND)
    at += count
    return from.subarray(at - count, at)
  }
  const uint32 = (): number => bytes(4).readUInt32BE()
  return { bytes, uint32, field: () => bytes(uint32()), rest: () => bytes(from.length - at) }
}
