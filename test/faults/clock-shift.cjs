// Loaded ahead of an agent (NODE_OPTIONS=--require), and by it ahead of its holders: the wall clock of the machine is off by
// the milliseconds that stand in the file CLOCK_SHIFT_FILE. The monotonic clock goes on, as it does when somebody sets the time.
const childProcess = require('node:child_process')
const { readFileSync } = require('node:fs')
const { syncBuiltinESMExports } = require('node:module')

const RealDate = Date
const file = process.env.CLOCK_SHIFT_FILE
const now = () => RealDate.now() + Number(readFileSync(file, 'utf8'))

globalThis.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length === 0 ? [now()] : given))
  }

  static now() {
    return now()
  }
}

const { spawn } = childProcess
childProcess.spawn = (program, args, options) => {
  if (!Array.isArray(args) || !args.includes('__holder')) return spawn(program, args, options)
  const env = { ...options.env, CLOCK_SHIFT_FILE: file }
  return spawn(program, ['--require', __filename, ...args], { ...options, env })
}
syncBuiltinESMExports()
