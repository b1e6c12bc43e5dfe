// Loaded ahead of an agent (NODE_OPTIONS=--require): its wall clock is off by CLOCK_SHIFT_MS, and by as much to the other
// side after SIGUSR2. The monotonic clock goes on as it does when an administrator sets the time.
const RealDate = Date
let shift = Number(process.env.CLOCK_SHIFT_MS)
const now = () => RealDate.now() + shift

globalThis.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length === 0 ? [now()] : given))
  }

  static now() {
    return now()
  }
}

process.on('SIGUSR2', () => {
  shift = -shift
})
