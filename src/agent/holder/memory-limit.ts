/**
 * The MiB at which a server is ended, for the memory that it was given. Programs that get that number (`-Xmx`) use
 * somewhat more for themselves: 15 % are added up to 2 GiB, 10 % up to 4 GiB, and 5 % above. 0 or less is no limit.
 */
export function enforcedMemoryMb(memoryMb: number): number {
  if (memoryMb <= 0) return memoryMb
  const percent = memoryMb <= 2048 ? 115 : memoryMb <= 4096 ? 110 : 105
  return Math.floor((memoryMb * percent) / 100)
}
