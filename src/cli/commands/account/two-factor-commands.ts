import { command, noun, type Option } from '../../kit/command.ts'
import { YES } from '../../kit/option-sets.ts'

const actions = () => import('./two-factor.ts')

const PASSWORD: Option = { flags: '--password-stdin', summary: 'read the password from stdin' }

export const twoFactor = noun({
  name: 'two-factor',
  aliases: ['2fa'],
  summary: 'Sign in with a code beside the password',
  group: 'Core',
  children: [
    command({
      name: 'status',
      summary: 'Show whether your sign-in asks for a second factor',
      examples: ['panel profile two-factor status'],
      endpoints: ['two_factor.get'],
      load: async () => (await actions()).twoFactorStatus,
    }),
    command({
      name: 'enable',
      summary: 'Begin with two-factor sign-in: shows a QR code, its URI and recovery codes',
      details: 'It holds from the first code on, which is asked for at once on a terminal, else by `confirm`.',
      options: [PASSWORD],
      examples: [
        'panel profile two-factor enable',
        'panel profile two-factor enable --password-stdin --json < password',
      ],
      endpoints: ['two_factor.enable'],
      exits: [7, 9, 14],
      load: async () => (await actions()).enableTwoFactor,
    }),
    command({
      name: 'confirm',
      summary: 'Give the first code of your authenticator; from now on sign-ins ask for one',
      details: 'The code is read from stdin, from PANEL_TOTP, or asked for.',
      options: [{ flags: '--totp-stdin', summary: 'read the code from stdin' }],
      examples: ['panel profile two-factor confirm', 'oathtool … | panel profile two-factor confirm --totp-stdin'],
      endpoints: ['two_factor.verify_totp'],
      exits: [7, 8, 9],
      load: async () => (await actions()).confirmTwoFactor,
    }),
    command({
      name: 'codes',
      summary: 'Make new recovery codes; the old ones end',
      options: [PASSWORD],
      examples: ['panel profile two-factor codes > codes'],
      endpoints: ['two_factor.codes'],
      exits: [7, 9],
      load: async () => (await actions()).renewCodes,
    }),
    command({
      name: 'disable',
      summary: 'End two-factor sign-in',
      options: [PASSWORD, YES],
      examples: ['panel profile two-factor disable'],
      endpoints: ['two_factor.disable'],
      exits: [9],
      load: async () => (await actions()).disableTwoFactor,
    }),
  ],
})
