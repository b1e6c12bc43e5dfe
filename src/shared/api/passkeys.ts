import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { PasskeyId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { OneLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'
import { LoginResult } from './auth.ts'

/** A passkey of one's own; its public key and counter stay in the panel. */
export const Passkey = z.object({
  id: z.string(),
  name: z.string().nullable(),
  userId: z.string(),
  credentialID: z.string(),
  deviceType: z.enum(['singleDevice', 'multiDevice']),
  backedUp: z.boolean(),
  transports: z.array(z.string()),
  aaguid: z.string().nullable(),
  lastUsedAt: IsoTime.nullable(),
  createdAt: IsoTime,
})
export type Passkey = z.infer<typeof Passkey>

const Base64Url = z.string().regex(/^[A-Za-z0-9_-]+$/, 'must be base64url')
const Name = OneLine.trim().min(1).max(100)
const attachment = z.enum(['platform', 'cross-platform'])

/** What browsers call PublicKeyCredentialDescriptorJSON. */
const Descriptor = z.object({
  id: z.string(),
  type: z.literal('public-key'),
  transports: z.array(z.string()).optional(),
})

export const listPasskeys = defineEndpoint({
  id: 'passkeys.list',
  tag: 'Auth',
  summary: 'List your passkeys, newest first',
  method: 'GET',
  path: '/api/auth/profile/passkeys',
  access: 'session',
  query: pageQuery(),
  response: z.array(Passkey),
  paged: true,
})

export const beginPasskey = defineEndpoint({
  id: 'passkeys.begin',
  tag: 'Auth',
  summary: 'Ask for what an authenticator makes a passkey from',
  method: 'POST',
  path: '/api/auth/profile/passkeys',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  body: z.object({ name: Name.optional(), authenticatorAttachment: attachment.optional() }).optional(),
  /** PublicKeyCredentialCreationOptionsJSON of WebAuthn. */
  response: z.object({
    challenge: z.string(),
    rp: z.object({ name: z.string(), id: z.string() }),
    user: z.object({ id: z.string(), name: z.string(), displayName: z.string() }),
    pubKeyCredParams: z.array(z.object({ alg: z.int(), type: z.literal('public-key') })),
    timeout: z.int(),
    attestation: z.string(),
    excludeCredentials: z.array(Descriptor),
    authenticatorSelection: z.object({
      authenticatorAttachment: attachment.optional(),
      residentKey: z.string(),
      requireResidentKey: z.boolean(),
      userVerification: z.string(),
    }),
  }),
  errors: ['FEATURE_DISABLED', 'CONFLICT'],
  audit: { none: 'there is no passkey yet' },
})

export const verifyPasskey = defineEndpoint({
  id: 'passkeys.verify',
  tag: 'Auth',
  summary: 'Add the passkey that an authenticator has made',
  method: 'POST',
  path: '/api/auth/profile/passkeys/verify',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  lenient: 'browsers put in what newer versions of WebAuthn name',
  body: z.object({
    name: Name.optional(),
    /** RegistrationResponseJSON of WebAuthn. */
    response: z.object({
      id: Base64Url.max(1400),
      rawId: Base64Url.max(1400),
      type: z.literal('public-key'),
      authenticatorAttachment: z.string().max(50).nullish(),
      clientExtensionResults: z.record(z.string().max(100), z.unknown()).default({}),
      response: z.object({
        clientDataJSON: Base64Url.max(8192),
        attestationObject: Base64Url.max(65_536),
        transports: z.array(z.string().max(50)).max(10).optional(),
      }),
    }),
  }),
  response: Passkey,
  status: 201,
  errors: ['FEATURE_DISABLED', 'CONFLICT'],
  audit: { action: 'auth.passkey_add', resource: 'user' },
})

export const renamePasskey = defineEndpoint({
  id: 'passkeys.rename',
  tag: 'Auth',
  summary: 'Rename one of your passkeys',
  method: 'PATCH',
  path: '/api/auth/profile/passkeys/:passkeyId',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  params: { passkeyId: PasskeyId },
  body: z.object({ name: Name }),
  response: Passkey,
  errors: ['NOT_FOUND'],
  audit: { action: 'auth.passkey_update', resource: 'user' },
})

export const deletePasskey = defineEndpoint({
  id: 'passkeys.delete',
  tag: 'Auth',
  summary: 'Remove one of your passkeys',
  method: 'DELETE',
  path: '/api/auth/profile/passkeys/:passkeyId',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  params: { passkeyId: PasskeyId },
  response: z.object({ status: z.literal(true) }),
  errors: ['NOT_FOUND', 'LAST_SIGN_IN_METHOD'],
  audit: { action: 'auth.passkey_remove', resource: 'user' },
})

/** PublicKeyCredentialRequestOptionsJSON of WebAuthn. */
const RequestOptions = z.object({
  challenge: z.string(),
  rpId: z.string(),
  timeout: z.int(),
  userVerification: z.string(),
  allowCredentials: z.array(Descriptor),
})

const signInOptions = {
  tag: 'Auth',
  path: '/api/auth/passkey/generate-authenticate-options',
  access: 'public',
  response: RequestOptions,
  errors: ['FEATURE_DISABLED'],
} as const

export const passkeySignInOptions = defineEndpoint({
  ...signInOptions,
  id: 'passkeys.sign_in_options',
  summary: 'Ask for the challenge that a passkey signs',
  method: 'POST',
  audit: { none: 'nobody is signed in yet' },
})

export const passkeySignInOptionsRead = defineEndpoint({
  ...signInOptions,
  id: 'passkeys.sign_in_options_read',
  summary: 'The same by GET',
  method: 'GET',
})

export const signInByPasskey = defineEndpoint({
  id: 'passkeys.sign_in',
  tag: 'Auth',
  summary: 'Sign in by the challenge that a passkey has signed',
  method: 'POST',
  path: '/api/auth/passkey/verify-authentication',
  access: 'public',
  lenient: 'browsers put in what newer versions of WebAuthn name',
  body: z.object({
    rememberMe: z.boolean().default(false),
    /** AuthenticationResponseJSON of WebAuthn. */
    response: z.object({
      id: Base64Url.max(1400),
      rawId: Base64Url.max(1400),
      type: z.literal('public-key'),
      authenticatorAttachment: z.string().max(50).nullish(),
      clientExtensionResults: z.record(z.string().max(100), z.unknown()).default({}),
      response: z.object({
        clientDataJSON: Base64Url.max(8192),
        authenticatorData: Base64Url.max(8192),
        signature: Base64Url.max(8192),
        userHandle: Base64Url.max(200).nullish(),
      }),
    }),
  }),
  response: LoginResult,
  errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED', 'ACCOUNT_BANNED', 'EMAIL_NOT_VERIFIED', 'FEATURE_DISABLED'],
  audit: { action: 'auth.login', resource: 'user' },
})
