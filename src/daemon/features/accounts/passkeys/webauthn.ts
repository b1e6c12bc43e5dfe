/** The library, loaded when the first passkey is used: it takes 24 MiB and a fifth of a second, and most panels never need it. */
export function webauthn(): Promise<typeof import('@simplewebauthn/server')> {
  return import('@simplewebauthn/server')
}
