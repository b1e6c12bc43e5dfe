const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** Bytes as people read them: `12.3 MiB`. */
export function byteSize(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10))
  const scaled = bytes / 1024 ** power
  return `${power === 0 ? scaled : scaled.toFixed(1)} ${UNITS[power]}`
}
