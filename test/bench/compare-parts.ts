/** What a comparison of two builds can measure. */
export const PARTS = ['requests', 'writes', 'commands', 'console', 'idle'] as const
export type Part = (typeof PARTS)[number]
