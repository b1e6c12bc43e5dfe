import { z } from 'zod'

/** A text of an agent as it is kept and shown: one line without escape sequences and control characters, and not too long. */
export function agentText(text: string, most: number): string {
  // More than enough to be left over; what is cut off need not be looked at.
  const line = text
    .slice(0, most * 4)
    .replace(SEQUENCES, '')
    .replace(CONTROLS, ' ')
    .trim()
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`
}

/** The same as a schema: an agent is never refused for the look of its texts. */
export function AgentText(most: number): z.ZodString {
  return z.string().overwrite((text) => agentText(text, most))
}

/** A text of several lines, each as {@link agentText} keeps it, and not longer than `most` altogether. */
export function AgentLines(most: number): z.ZodString {
  return z.string().overwrite((text) => agentLines(text, most))
}

/** See {@link AgentLines}. */
export function agentLines(text: string, most: number): string {
  const lines = text.slice(0, most * 4).split('\n')
  return lines
    .map((line) => agentText(line, most))
    .join('\n')
    .trim()
    .slice(0, most)
}

/** What may be an id in a frame: longer ones, and such with line ends, are none of ours, and would make more of the lines that they are put into. */
export const AGENT_ID = /^\P{Cc}{0,200}$/u

/** An id in a frame. */
export const AgentId = z.string().regex(AGENT_ID)

/** Why a server is as it is, in a sentence. */
export const MOST_REASON = 500

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are made of control characters
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?)/g
const CONTROLS = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/gu
