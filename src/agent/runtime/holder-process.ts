import { TOOL_PATH } from '../holder/process/launcher.ts'

/**
 * What Node is started with for a holder, of which there is one per server: one thread beside its own, however many processors there are.
 * Options of V8 are not among them: with any of them Node compiles its own modules anew instead of using what it has ready.
 */
export const HOLDER_NODE_OPTIONS = ['--v8-pool-size=1'] as const

/**
 * The environment of a holder; it hands none of it on. What it frees goes back to the machine, not into a store of its own (glibc): what
 * fills two pages has pages of its own, so that a start leaves no holes among what stays.
 */
export const HOLDER_ENV = {
  PATH: TOOL_PATH,
  UV_THREADPOOL_SIZE: '1',
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '8192',
  MALLOC_TRIM_THRESHOLD_: '32768',
  MALLOC_TOP_PAD_: '4096',
} as const
