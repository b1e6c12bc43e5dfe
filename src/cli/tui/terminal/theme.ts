/** What a text means; a theme says how that looks. */
export const TONES = [
  'title',
  'plain',
  'dim',
  'rule',
  'good',
  'warn',
  'bad',
  'accent',
  'typed',
  'message',
  'match',
  'current',
  'selected',
  'fill',
  'rest',
] as const
export type Tone = (typeof TONES)[number]

/** The look of every tone, as runs of SGR sequences ('' is the terminal's own). */
export type Theme = Readonly<Record<Tone, string>>

/** What `--theme` takes. */
export const THEME_NAMES = ['auto', 'dark', 'light', 'none'] as const
export type ThemeName = (typeof THEME_NAMES)[number]

/** What decides a theme: the person's choice, and what the surroundings say of the terminal. */
export interface ThemeChoice {
  readonly name: ThemeName
  /** NO_COLOR, or `--no-color`. */
  readonly noColor: boolean
  /** COLORFGBG, as in `15;0`: the last number is the background. */
  readonly colorFgBg: string | undefined
  readonly term: string | undefined
  readonly colorTerm: string | undefined
}

/**
 * The theme for a terminal. A theme that was named holds whatever else is said; `auto` has no colours under NO_COLOR, is
 * light where COLORFGBG names a light background and dark otherwise. The terminal is not asked: not every one answers.
 */
export function chooseTheme(choice: ThemeChoice): Theme {
  const { name } = choice
  if (name === 'none' || (name === 'auto' && choice.noColor)) return MONOCHROME
  const light = name === 'light' || (name === 'auto' && hasLightBackground(choice.colorFgBg))
  const many = choice.colorTerm !== undefined || choice.term?.includes('256color') === true
  return many ? (light ? LIGHT : DARK) : light ? LIGHT_16 : DARK_16
}

/** Whether COLORFGBG names white or light grey as the background. */
function hasLightBackground(colorFgBg: string | undefined): boolean {
  const background = colorFgBg?.split(';').at(-1)
  return background === '7' || background === '15'
}

const sgr = (...codes: readonly (number | string)[]): string => codes.map((code) => `\u001B[${code}m`).join('')

/** Bold, dim, underlined and reversed text alone: no colour carries a meaning that is nowhere else. */
const MONOCHROME: Theme = {
  title: sgr(1),
  plain: '',
  dim: sgr(2),
  rule: sgr(2),
  good: '',
  warn: sgr(1),
  bad: sgr(1, 7),
  accent: sgr(1),
  typed: sgr(1),
  message: sgr(1),
  match: sgr(4, 7),
  current: sgr(1, 4, 7),
  selected: sgr(7),
  fill: '',
  rest: sgr(2),
}

const DARK_16: Theme = {
  ...MONOCHROME,
  title: sgr(1, 96),
  rule: sgr(90),
  good: sgr(32),
  warn: sgr(33),
  bad: sgr(91),
  accent: sgr(96),
  typed: sgr(36),
  message: sgr(93),
  match: sgr(30, 43),
  current: sgr(1, 30, 105),
  fill: sgr(36),
  rest: sgr(90),
}

const LIGHT_16: Theme = {
  ...DARK_16,
  title: sgr(1, 34),
  rule: sgr(37),
  bad: sgr(31),
  accent: sgr(34),
  message: sgr(35),
  fill: sgr(34),
  rest: sgr(37),
}

const DARK: Theme = {
  ...DARK_16,
  title: sgr(1, '38;5;117'),
  dim: sgr('38;5;245'),
  rule: sgr('38;5;240'),
  good: sgr('38;5;114'),
  warn: sgr('38;5;221'),
  bad: sgr('38;5;203'),
  accent: sgr('38;5;117'),
  typed: sgr('38;5;116'),
  message: sgr('38;5;223'),
  match: sgr('38;5;16', '48;5;221'),
  current: sgr(1, '38;5;16', '48;5;213'),
  fill: sgr('38;5;75'),
  rest: sgr('38;5;238'),
}

const LIGHT: Theme = {
  ...DARK,
  title: sgr(1, '38;5;25'),
  dim: sgr('38;5;242'),
  rule: sgr('38;5;250'),
  good: sgr('38;5;28'),
  warn: sgr('38;5;130'),
  bad: sgr('38;5;160'),
  accent: sgr('38;5;25'),
  typed: sgr('38;5;30'),
  message: sgr('38;5;90'),
  match: sgr('38;5;16', '48;5;221'),
  current: sgr(1, '38;5;231', '48;5;127'),
  fill: sgr('38;5;31'),
  rest: sgr('38;5;252'),
}
