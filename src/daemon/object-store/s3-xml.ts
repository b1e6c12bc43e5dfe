import type { Element, Node } from '@xmldom/xmldom'

/** An answer of S3 as a tree; names of elements are those that S3 documents. */
export interface XmlAnswer {
  readonly name: string
  /** The text of the first child of this name; '' where there is none. */
  text(child: string): string
  /** All children of this name. */
  all(child: string): XmlAnswer[]
}

/** A page of 1,000 objects with all that S3 says of each stays far below both. */
const MOST_TAGS = 100_000
const MOST_DEPTH = 16

/** Reads an answer; `undefined` for what is no XML, and for what S3 never does: entities that are declared, and trees that are deep or huge. */
export async function readXml(body: string): Promise<XmlAnswer | undefined> {
  if (!body.trimStart().startsWith('<') || /<!(?:DOCTYPE|ENTITY)/i.test(body) || !isModest(body)) return undefined
  // Loaded here: most panels have no such store, and it lists all names of characters when it is loaded.
  const { DOMParser, onErrorStopParsing } = await import('@xmldom/xmldom')
  try {
    const document = new DOMParser({ onError: onErrorStopParsing }).parseFromString(body.trim(), 'text/xml')
    return document.documentElement === null ? undefined : answerOf(document.documentElement)
  } catch {
    return undefined // a page of a proxy, or an answer that was cut off: the caller says what it was
  }
}

/** Reading takes time by the tags, and by more than that where they lie in each other. */
function isModest(body: string): boolean {
  let [tags, depth, end] = [0, 0, 0]
  for (let at = body.indexOf('<'); at >= 0; at = body.indexOf('<', at + 1)) {
    if (end < at) end = body.indexOf('>', at) // looked for once, also where many tags have no end
    if (end < 0) return false
    const after = body.charAt(at + 1)
    if (after === '/') depth--
    else if (after !== '?' && after !== '!' && body.charAt(end - 1) !== '/') depth++
    if (++tags > MOST_TAGS || depth > MOST_DEPTH) return false
  }
  return true
}

/** The text with what XML gives a meaning of its own spelled out. */
export function xmlText(text: string): string {
  return text.replace(/[<>&"']/g, (char) => `&#${char.charCodeAt(0)};`)
}

function answerOf(element: Element): XmlAnswer {
  const children = (name: string): Element[] => {
    const found: Element[] = []
    for (let node: Node | null = element.firstChild; node !== null; node = node.nextSibling) {
      if (isElement(node) && localName(node) === name) found.push(node)
    }
    return found
  }
  return {
    name: localName(element),
    text: (child) => children(child)[0]?.textContent?.trim() ?? '',
    all: (child) => children(child).map(answerOf),
  }
}

function isElement(node: Node): node is Element {
  return node.nodeType === 1
}

function localName(element: Element): string {
  return element.localName ?? element.nodeName
}
