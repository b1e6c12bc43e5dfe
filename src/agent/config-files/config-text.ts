import type { ConfigFile, ConfigParser } from '../../shared/protocol/config-files.ts'
import { ConfigFileProblem, MOST_CONFIG_BYTES } from './config-file-problem.ts'
import { changeIni } from './ini.ts'
import { changeJson } from './json-document.ts'
import { changeLines } from './plain-lines.ts'
import { changeProperties } from './properties.ts'
import { type Setting, settingOf } from './setting.ts'
import { changeToml } from './toml-document.ts'
import { changeXml } from './xml-document.ts'
import { changeYaml } from './yaml-document.ts'

export { stepsOfSettings } from './setting.ts'

type Change = (text: string, settings: readonly Setting[]) => string

const CHANGES: Readonly<Record<ConfigParser, Change>> = {
  file: changeLines,
  properties: changeProperties,
  ini: changeIni,
  json: changeJson,
  yaml: changeYaml,
  xml: changeXml,
  toml: changeToml,
}

/**
 * The text of a configuration file as a start needs it: `text` is what it holds now, `null` that there is none. Answers `null` where
 * nothing is to be written: the file is absent and not to be made, or already as it should be. Throws a {@link ConfigFileProblem} for
 * a file that its parser cannot follow.
 */
export function configText(
  file: ConfigFile,
  text: string | null,
  known: Readonly<Record<string, string>>,
): string | null {
  if (text === null && !file.create) return null
  const before = text ?? ''
  if (Buffer.byteLength(before) > MOST_CONFIG_BYTES) throw new ConfigFileProblem('is larger than 64 MiB')
  const settings = file.set.map((one) => settingOf(one, known))
  const after = changed(file.parser, before, settings)
  return text !== null && after === before ? null : after
}

/** What nests without end is refused before it is parsed where that is known; a parser that gives up by itself says it this way. */
function changed(parser: ConfigParser, text: string, settings: readonly Setting[]): string {
  try {
    return CHANGES[parser](text, settings)
  } catch (error) {
    if (error instanceof RangeError) throw new ConfigFileProblem('is nested too deep', { cause: error })
    throw error
  }
}
