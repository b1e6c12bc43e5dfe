import { ConfigFileProblem, refuseNul } from './config-file-problem.ts'
import { replacement, type Setting } from './setting.ts'

/** Replaces each line that begins with a key by the value; nothing is added. */
export function changeLines(text: string, settings: readonly Setting[]): string {
  return text
    .split(/(?<=\n)/)
    .map((line) => {
      const end = /\r?\n?$/.exec(line)?.[0] ?? ''
      let content = line.slice(0, line.length - end.length)
      for (const setting of settings) {
        if (!content.startsWith(setting.key)) continue
        const value = replacement(setting, content)
        // It would add lines, at each start again.
        if (value !== undefined && /[\r\n]/.test(String(setting.value ?? '')))
          throw new ConfigFileProblem(`cannot hold a value of several lines at ${setting.key}`)
        if (value !== undefined) refuseNul(String(setting.value ?? ''), setting.key)
        content = String(value ?? content)
      }
      return content + end
    })
    .join('')
}

/** How the lines of a text end. */
export function lineEnd(text: string): string {
  return text.includes('\r\n') ? '\r\n' : '\n'
}
