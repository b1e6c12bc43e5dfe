import { type ConfigFlags, inspectConfig } from './config/config.ts'
import { dataFolderProblems, EXIT_CONFIG } from './config/config-problems.ts'
import { print, printError } from './core/notices.ts'

/** `panel daemon run --check`: prints everything that a start would stumble over, or what it would do. Starts nothing. */
export function checkConfiguration(flags: ConfigFlags): number {
  const { config, problems } = inspectConfig(flags)
  problems.push(...dataFolderProblems(config.dataDir))
  // The command line has warned of the others.
  const sections = config.unknownVariables.filter((name) => name.includes('__'))
  for (const name of sections) printError(`panel: the variable ${name} means nothing here\n`)
  if (problems.length > 0) {
    printError(`The configuration is not valid:\n${problems.map((problem) => `  ${problem}\n`).join('')}`)
    return EXIT_CONFIG
  }
  const host = config.host.includes(':') ? `[${config.host}]` : config.host
  const rows = [
    ['listens at', `${config.tls === undefined ? 'http' : 'https'}://${host}:${config.port}`],
    ['public URL', config.publicUrl ?? 'not set (http.publicUrl)'],
    ['data', config.dataDir],
    ['credential key', config.credentialKey === undefined ? 'not set (PANEL_CREDENTIAL_KEY_FILE)' : 'set'],
    ['fixed settings', Object.keys(config.fixed).join(', ') || 'none'],
  ] as const
  print(`The configuration is valid.\n${rows.map(([name, is]) => `  ${name.padEnd(16)}${is}\n`).join('')}`)
  return 0
}
