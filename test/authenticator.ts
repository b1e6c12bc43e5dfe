import { createHash, createSign, generateKeyPairSync, randomBytes } from 'node:crypto'

/** Options of a call that tests bend. */
export interface Bent {
  readonly origin?: string
  readonly counter?: number
  readonly userVerified?: boolean
  readonly challenge?: string
}

/** A passkey in an authenticator made of software: ES256, as security keys have them. */
export interface SoftPasskey {
  readonly id: string
  /** What the browser hands over after `navigator.credentials.create`. */
  register(
    options: { readonly challenge: string; readonly rp: { readonly id: string } },
    bent?: Bent,
  ): RegistrationAnswer
  /** What it hands over after `navigator.credentials.get`. */
  sign(options: { readonly challenge: string; readonly rpId: string }, bent?: Bent): SignInAnswer
}

export interface RegistrationAnswer {
  readonly id: string
  readonly rawId: string
  readonly type: 'public-key'
  readonly response: {
    readonly clientDataJSON: string
    readonly attestationObject: string
    readonly transports: string[]
  }
}

export interface SignInAnswer {
  readonly id: string
  readonly rawId: string
  readonly type: 'public-key'
  readonly response: {
    readonly clientDataJSON: string
    readonly authenticatorData: string
    readonly signature: string
  }
}

const PRESENT = 0x01
const VERIFIED = 0x04
const ATTESTED = 0x40

/** An authenticator with a fresh key, in the browser at `origin`. Its counter grows with each signature. */
export function createPasskey(origin: string): SoftPasskey {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  const credentialId = randomBytes(32)
  const id = credentialId.toString('base64url')
  let counter = 0
  const clientData = (type: string, challenge: string, bent: Bent): Buffer =>
    Buffer.from(JSON.stringify({ type, challenge: bent.challenge ?? challenge, origin: bent.origin ?? origin }))
  const head = (rpId: string, flags: number, bent: Bent): Buffer => {
    const number = Buffer.alloc(4)
    number.writeUInt32BE(bent.counter ?? counter)
    const verified = bent.userVerified === false ? 0 : VERIFIED
    return Buffer.concat([sha256(rpId), Buffer.from([flags | verified]), number])
  }
  return {
    id,
    register: ({ challenge, rp }, bent = {}) => {
      // COSE: EC2, ES256, P-256, x, y
      const cose = [hex('a5010203262001215820'), url64(x), hex('225820'), url64(y)]
      const length = Buffer.from([0, credentialId.length])
      const data = Buffer.concat([
        head(rp.id, PRESENT | ATTESTED, bent),
        Buffer.alloc(16),
        length,
        credentialId,
        ...cose,
      ])
      const response = {
        clientDataJSON: clientData('webauthn.create', challenge, bent).toString('base64url'),
        attestationObject: attestation(data).toString('base64url'),
        transports: ['usb'],
      }
      return { id, rawId: id, type: 'public-key', response }
    },
    sign: ({ challenge, rpId }, bent = {}) => {
      counter += 1
      const data = head(rpId, PRESENT, bent)
      const client = clientData('webauthn.get', challenge, bent)
      const signature = createSign('sha256')
        .update(Buffer.concat([data, sha256(client)]))
        .sign(privateKey)
      const response = {
        clientDataJSON: client.toString('base64url'),
        authenticatorData: data.toString('base64url'),
        signature: signature.toString('base64url'),
      }
      return { id, rawId: id, type: 'public-key', response }
    },
  }
}

/** CBOR: {fmt: "none", attStmt: {}, authData: bytes} */
function attestation(data: Buffer): Buffer {
  const text = (word: string): Buffer => Buffer.concat([Buffer.from([0x60 + word.length]), Buffer.from(word)])
  const bytes = Buffer.concat([Buffer.from([0x58, data.length]), data])
  return Buffer.concat([hex('a3'), text('fmt'), text('none'), text('attStmt'), hex('a0'), text('authData'), bytes])
}

function sha256(data: string | Buffer): Buffer {
  return createHash('sha256').update(data).digest()
}

function hex(text: string): Buffer {
  return Buffer.from(text, 'hex')
}

function url64(text: string): Buffer {
  return Buffer.from(text, 'base64url')
}
