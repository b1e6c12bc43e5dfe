import { Document, Scalar, visit } from 'yaml'
import { isUnsafe, terminalText } from '../../../shared/kernel/terminal-text.ts'

/** YAML with every character escaped that a terminal could act on: any parser reads the same value. */
export function yamlText(value: unknown): string {
  const document = new Document(value)
  visit(document, {
    Scalar: (_, scalar) => {
      // Only double quotes take escapes; a text of several lines stays a block unless more than its line ends is unsafe.
      if (typeof scalar.value === 'string' && isUnsafe(scalar.value.replace(/[\n\t]/g, '')))
        scalar.type = Scalar.QUOTE_DOUBLE
    },
  })
  return terminalText(document.toString())
}
