import { DOMParser, type Document, type Element, XMLSerializer } from '@xmldom/xmldom'
import { ConfigFileProblem } from './config-file-problem.ts'
import { refuseDeepElements } from './nesting.ts'
import { replacement, type Setting } from './setting.ts'
import { EVERY, type Step, stepsOf } from './value-path.ts'

const ATTRIBUTE = /^\[([A-Za-z_][\w.:-]{0,100})=(?:'([^']*)'|"([^"]*)")\]$/
/** What no XML file may hold, also not spelled out: no program would read the file any more. */
const NOT_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u

/**
 * Sets texts of elements of an XML file, by their dotted path from the outermost one; a value `[name='text']` sets an attribute. Comments
 * and what is not named stay; absent elements are added. Document types and their entities are refused.
 */
export function changeXml(text: string, settings: readonly Setting[]): string {
  const document = parsed(text, settings)
  for (const setting of settings) {
    const [outermost, ...steps] = stepsOf(setting.key)
    const root = document.documentElement
    if (root === null || (outermost !== EVERY && root.tagName !== outermost)) {
      throw new ConfigFileProblem(`has no place ${setting.key}: its outermost element is ${root?.tagName ?? 'missing'}`)
    }
    for (const element of elementsAt(root, steps, setting)) change(element, setting)
  }
  return new XMLSerializer().serializeToString(document)
}

function parsed(text: string, settings: readonly Setting[]): Document {
  if (/<!(?:DOCTYPE|ENTITY)/i.test(text)) throw new ConfigFileProblem('has a document type, which is not read')
  refuseDeepElements(text)
  const [outermost] = stepsOf(settings[0]?.key ?? 'root')
  const source = text.trim() === '' && typeof outermost === 'string' ? `<${outermost}/>` : text
  try {
    return new DOMParser({
      onError: (level, message) => {
        if (level !== 'warning') throw new ConfigFileProblem(`is not valid XML: ${message.slice(0, 200)}`)
      },
    }).parseFromString(source, 'text/xml')
  } catch (error) {
    if (error instanceof ConfigFileProblem) throw error
    throw new ConfigFileProblem(`is not valid XML: ${error instanceof Error ? error.message.slice(0, 200) : ''}`)
  }
}

function elementsAt(element: Element, [step, ...deeper]: readonly Step[], setting: Setting): Element[] {
  if (step === undefined) return [element]
  const children = [...element.childNodes].filter((node): node is Element => node.nodeType === node.ELEMENT_NODE)
  if (typeof step === 'number') throw new ConfigFileProblem(`has no place ${setting.key}`)
  const named = children.filter((child) => step === EVERY || child.tagName === step)
  if (named.length > 0 || step === EVERY) return named.flatMap((child) => elementsAt(child, deeper, setting))
  if (setting.ifValue !== undefined) return []
  if (!/^[A-Za-z_][\w.-]*$/.test(step)) throw new ConfigFileProblem(`has no place ${setting.key}`)
  const made = element.ownerDocument?.createElement(step)
  if (made === undefined) return []
  element.appendChild(made)
  return elementsAt(made, deeper, setting)
}

function change(element: Element, setting: Setting): void {
  const value = replacement(setting, element.textContent ?? '')
  if (value === undefined) return
  const text = String(value ?? '')
  if (NOT_XML.test(text))
    throw new ConfigFileProblem(`cannot hold a character at ${setting.key} that XML does not have`)
  const [, name, single, double] = ATTRIBUTE.exec(text) ?? []
  if (name === undefined) element.textContent = text
  else element.setAttribute(name, single ?? double ?? '')
}
