/** The commands that test/cli/sign-in-commands.test.ts runs: they need an identity provider. */
export const SIGN_IN: readonly string[] = [
  'profile passkeys delete',
  'profile passkeys list',
  'profile passkeys rename',
  'profile sso link',
  'profile sso list',
  'profile sso unlink',
  'providers create',
  'providers delete',
  'providers edit',
  'providers list',
  'providers test',
  'providers view',
  'settings oidc get',
  'settings oidc set',
  'settings oidc test',
]
