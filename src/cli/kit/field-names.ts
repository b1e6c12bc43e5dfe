import type { FieldProblem } from '../../shared/kernel/errors.ts'
import { type Command, type Option, optionName } from './command.ts'

/**
 * What somebody who types this command calls a field of its request: the flag or word that fills it. A field that only a file
 * gives goes by its own name, without the part of the request that it stands in.
 */
export function calledBy(command: Command | undefined, field: string): string {
  const [, path = ''] = /^(?:(?:body|query|params)(?:\.|$))?(.*)$/s.exec(field) ?? []
  if (path === '') return 'the request'
  const parts = path.split('.')
  // Flags fill the options of a request one by one.
  const isOption = parts[0] === 'options' && parts.length > 1 && optionFor(command, 'options') === undefined
  const [head = '', ...rest] = isOption ? parts.slice(1) : parts
  const option = optionFor(command, head)
  if (option !== undefined) {
    const below = rest.filter((part) => !/^\d+$/.test(part)).map((part) => option.typed?.[part] ?? part)
    return [`--${optionName(option.flags)}`, ...(below.length === 0 ? [] : [below.join('.')])].join(' ')
  }
  const word = command?.arguments?.find(({ name, ref }) => [head, withoutId(head)].includes(ref ?? name))
  return word === undefined ? path : `<${word.name}>`
}

/** A refusal in the words of the command line; the sentence does not repeat what the lines below it say. */
export function inFlags(
  refusal: { readonly message: string; readonly details: readonly FieldProblem[] | undefined },
  command: Command | undefined,
): { readonly message: string; readonly details: readonly FieldProblem[] | undefined } {
  const [first] = refusal.details ?? []
  const sentence =
    first === undefined ? refusal.message : refusal.message.replace(`: ${first.field} ${first.message}`, '')
  const details = refusal.details?.map(({ field, message }) => ({
    field: calledBy(command, field),
    message: withFlags(message, command),
  }))
  return { message: withFlags(sentence, command), details }
}

/** Names of fields inside a text: with the part of the request before them, or in camel case and known to the command. */
function withFlags(text: string, command: Command | undefined): string {
  return text
    .replace(/\b(?:body|query|params)\.[A-Za-z][\w.]*\w/g, (field) => calledBy(command, field))
    .replace(/(?<![\w.-])[a-z]+[A-Z]\w*\b/g, (word) => (isFilled(command, word) ? calledBy(command, word) : word))
}

function isFilled(command: Command | undefined, field: string): boolean {
  return optionFor(command, field) !== undefined
}

/** By what the option says itself, else by its name: `--password-stdin` fills password and newPassword, `--allocation` allocationId. */
function optionFor(command: Command | undefined, field: string): Option | undefined {
  const options = command?.options ?? []
  const said = options.find((option) => option.field === field || option.fills === field)
  const others = options.filter((option) => option.field === undefined && option.fills === undefined)
  const names = [field, withoutId(field), field.replace(/^(?:new|current)(?=[A-Z])/, '')].map(kebab)
  const words = names.flatMap((name) => [name, `${name}-stdin`, `${name}-file`])
  const named = words.map((word) => others.find(({ flags }) => optionName(flags) === word))
  return said ?? named.find((option) => option !== undefined)
}

function withoutId(field: string): string {
  return field.replace(/Ids?$/, '')
}

function kebab(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replace(/^-/, '')
}
