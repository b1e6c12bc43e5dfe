// What the build changes of packages that it makes part of the program, so that they load in less time. A package that is no longer
// as it was fails the build.

/** React and what belongs to it choose their half by NODE_ENV when they are loaded; here the build chooses. */
function forProduction(code, id) {
  if (!/[/\\]node_modules[/\\](?:react|react-reconciler|scheduler)[/\\]/.test(id)) return null
  return code.replaceAll('process.env.NODE_ENV', '"production"')
}

/**
 * Ink waits, when it is loaded, for the engine of its layout, and for tools of its developers; the parts cannot wait. The engine is
 * made at once, as Node allows.
 */
function inkAtOnce(code, id) {
  const path = id.split(/[/\\]node_modules[/\\]/).at(-1)
  const changes = {
    'ink/build/reconciler.js': [
      ["await import('./devtools.js')", ''],
      ['await loadPackageJson()', 'undefined'],
    ],
    'yoga-layout/dist/src/index.js': [['wrapAssembly(await loadYoga())', 'wrapAssembly(loadYoga())']],
    'yoga-layout/dist/binaries/yoga-wasm-base64-esm.js': [
      [
        /\(function\(\)\{return w\|\|.*?\}\)\(\)\.catch\(ca\);/,
        'b({instance:new WebAssembly.Instance(new WebAssembly.Module(wa()),d)});',
      ],
      ['return loadYoga.ready', 'return h'],
    ],
  }[path]
  return changes === undefined ? null : changed(code, id, changes)
}

/**
 * Commander is of the older kind of module, which asks for Node's own by a function that takes longer to make than they do; and it asks for
 * one to run subcommands as programs, of which there are none here.
 */
function commanderAsModules(code, id) {
  const path = id.split(/[/\\]node_modules[/\\]commander[/\\]/)[1]
  if (path === undefined) return null
  if (path === 'esm.mjs') {
    const names = { command: 'Command', error: 'CommanderError', option: 'Option' }
    return Object.entries(names)
      .map(([file, name]) => `export { ${name} } from './lib/${file}.js'`)
      .join('\n')
  }
  const made = code
    .replace(/^const childProcess = require\('node:child_process'\);$/m, 'const childProcess = {};')
    // `process` is there without an import.
    .replace(/^const process = require\('node:process'\);$/m, '')
    .replace(
      /^const EventEmitter = require\('node:events'\)\.EventEmitter;$/m,
      "import { EventEmitter } from 'node:events';",
    )
    .replace(/^const (\w+|\{[^}]+\}) = require\('([^']+?)(?:\.js)?'\);$/gm, (_, names, from) =>
      from.startsWith('node:') ? `import ${names} from '${from}';` : `import ${names} from '${from}.js';`,
    )
    .replace(/^exports\.(\w+) = \1;.*$/gm, 'export { $1 };')
  if (/\brequire\(|\bexports\./.test(made)) throw new Error(`${id} is not as it was: see commanderAsModules`)
  return made
}

/**
 * The router makes two functions of text for each of some hundred routes, which takes a tenth of a start: here they are made when they are called
 * first, once for each text, and the beginning of a path is compared by a function that is there.
 */
function routerOfFewFunctions(code, id) {
  const file = id.split(/[/\\]node_modules[/\\]find-my-way[/\\]lib[/\\]/)[1]
  if (file === 'node.js') {
    return changed(code, id, [
      [
        /const lines = \[\][\s\S]*?return new Function\('path', 'i', .*$/m,
        'return (path, i) => path.startsWith(prefix, i)',
      ],
    ])
  }
  if (file !== 'handler-storage.js') return null
  const made = changed(code, id, [
    [/new Function\(/g, 'functionOf('],
    [
      '_createParamsObject: this._compileCreateParamsObject(params)',
      `_createParamsObject: (...values) => {
        handlerObject._createParamsObject = this._compileCreateParamsObject(params)
        return handlerObject._createParamsObject(...values)
      }`,
    ],
    [
      'this._compileGetHandlerMatchingConstraints(constrainer, constraints)',
      `this._getHandlerMatchingConstraints = (derived) => {
        this._compileGetHandlerMatchingConstraints(constrainer, constraints)
        return this._getHandlerMatchingConstraints(derived)
      }`,
    ],
  ])
  return `${FUNCTION_OF}\n${made}`
}

/** Functions of the same text are one. */
const FUNCTION_OF = `
const functions = new Map()
function functionOf(name, text) {
  const key = name + text
  if (!functions.has(key)) functions.set(key, new Function(name, text))
  return functions.get(key)
}`

/**
 * Fastify has a plugin of its own wait behind each route, with a timer, and then a listener: a sixth of a start. Here the routes of an instance wait
 * together. And it looks for each path whether HEAD has a route, also where it makes none itself.
 */
function routesTogether(code, id) {
  if (!/[/\\]node_modules[/\\]fastify[/\\]lib[/\\]route\.js$/.test(id)) return null
  const made = changed(code, id, [
    [
      "const headHandler = router.findRoute('HEAD'",
      "const headHandler = !shouldExposeHead ? null : router.findRoute('HEAD'",
    ],
    ['this.after((notHandledErr, done) => {', 'together(this, (run) => this.after(run), (notHandledErr, done) => {'],
    ["avvio.once('preReady', () => {", "together(avvio, (run) => avvio.once('preReady', run), () => {"],
    [
      'const toSet = this[kHooks][hook]',
      `if (this[kHooks][hook].length === 0 && opts[hook] === undefined) {
              context[hook] = null
              continue
            }
            const toSet = this[kHooks][hook]`,
    ],
  ])
  return `${TOGETHER}\n${made}`
}

/** Runs what waits for the same in one go. */
const TOGETHER = `
const waiting = new WeakMap()
function together(whom, wait, run) {
  const runs = waiting.get(whom)
  if (runs !== undefined) {
    runs.push(run)
    return
  }
  const all = [run]
  waiting.set(whom, all)
  wait((error, done) => {
    waiting.delete(whom)
    for (const one of all) one(error, () => {})
    done?.(error)
  })
}`

/** The code with each of the changes; fails where there is nothing to change. */
function changed(code, id, changes) {
  return changes.reduce((text, [from, to]) => {
    const made = text.replace(from, () => to)
    if (made === text) throw new Error(`${id} is not as it was: see ${import.meta.filename}`)
    return made
  }, code)
}

/** jq takes a few bytes of chance for its tables, for which Node would load all of its cryptography: a third of what a short program of jq takes. */
function jqWithChanceAtHand(code, id) {
  if (!/[/\\]node_modules[/\\]jq-wasm[/\\]/.test(id)) return null
  const made = code.replace('(crypto.getRandomValues(view), 0)', '(chance(view), 0)')
  if (made === code) throw new Error(`${id} is not as it was: see jqWithChanceAtHand`)
  return `import { closeSync, openSync, readSync } from 'node:fs'
function chance(view) {
  const file = openSync('/dev/urandom', 'r')
  try {
    for (let at = 0; at < view.length; ) at += readSync(file, view, at, view.length - at)
  } finally {
    closeSync(file)
  }
}
${made}`
}

/** Plugins of the bundler. */
export const packageChanges = [
  { name: 'React without its development half', transform: forProduction },
  { name: 'Ink at once', transform: inkAtOnce },
  { name: 'Commander as modules', transform: commanderAsModules },
  { name: 'a router of few functions', transform: routerOfFewFunctions },
  { name: 'routes that wait together', transform: routesTogether },
  { name: 'jq with chance from where it is at hand', transform: jqWithChanceAtHand },
]
