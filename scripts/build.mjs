// Builds the program into a folder: every module by the TypeScript compiler, and bin/panel.js with all of it in few files,
// because most of what a start costs is to find and load modules. The separate modules are what tests load one by one, and
// the host of plugins. The build is incremental and never deletes: a daemon or a command may be running from the folder.
//
//   node scripts/build.mjs                       dist, as `npm run build`
//   node scripts/build.mjs <folder> [more …]     a whole copy elsewhere, for tests and the bench: folders are compiled with it,
//                                                and files are made programs in few files beside bin/panel.js
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'
import { compileParts } from './compile-parts.mjs'
import { packageChanges } from './package-changes.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const [folder, ...more] = process.argv.slice(2)

/** Packages that stay where they are; all others are part of the program. */
const OUTSIDE = [
  // with binaries, workers or files beside them
  '@lydell/node-pty',
  '@node-rs/argon2',
  'pino-pretty',
  'sqlite3',
  'ssh2',
  // that most starts do without
  '@fastify/ajv-compiler',
  '@fastify/fast-json-stringify-compiler',
  '@inquirer/prompts',
  '@simplewebauthn/server',
  'ajv',
  'light-my-request',
  'mysql2',
  'nodemailer',
  'pg',
  'qrcode',
  // that Ink asks for when its own developers debug it, and that is not installed
  'react-devtools-core',
]

const project = folder === undefined ? join(root, 'tsconfig.build.json') : copyTo(folder, more)
process.exitCode = compile(project)
if (process.exitCode === 0) await bundle(join(folder ?? join(root, 'dist'), 'bin'))

/** What a copy of the program needs beside its modules, and the configuration that compiles into it. */
function copyTo(target, include) {
  mkdirSync(target, { recursive: true })
  for (const name of ['package.json', 'templates']) cpSync(join(root, name), join(target, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(target, 'node_modules'))
  const compilerOptions = {
    noEmit: false,
    noCheck: true, // types are the matter of `npm run typecheck`, and of `npm run build`
    outDir: target,
    rootDir: root,
    types: ['node'],
    typeRoots: [join(root, 'node_modules', '@types')],
  }
  const config = join(target, 'tsconfig.json')
  const files = ['src', ...include].map((name) => join(root, name))
  writeFileSync(config, JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions, include: files }))
  return config
}

/** The compiler's words go to stderr: stdout belongs to whoever builds. */
function compile(config) {
  const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  const { status } = spawnSync(process.execPath, [compiler, '-p', config], { cwd: root, stdio: ['ignore', 2, 2] })
  return status ?? 1
}

/**
 * The parts are loaded by `bin/parts.ts`, with what V8 has made of them. Their names carry a hash of what is in them: what runs never
 * finds half of another build. They lie two folders
 * below the build, as src/daemon and src/agent do, so that paths relative to a module hold in both forms.
 */
async function bundle(target) {
  const build = await rolldown({
    input: programs(),
    platform: 'node',
    preserveEntrySignatures: 'allow-extension', // parts may hold modules that others use
    // What is shared only declares: what nobody uses of it need not be loaded.
    treeshake: { moduleSideEffects: (id, isOutside) => isOutside || !id.startsWith(join(root, 'src', 'shared')) },
    plugins: [
      { name: 'what stays outside', resolveId: outside },
      { name: 'schemas that are made when they are used', ...lateSchemas() },
      { name: 'endpoints as outlines', ...(await outlines(dirname(target))) },
      { name: 'help that is made already', load: await readyHelp(dirname(target)) },
      ...packageChanges,
      { name: 'modules of packages by a call', generateBundle: byLateCall },
      { name: 'one byte for each character', generateBundle: inAscii },
      { name: 'a function each', generateBundle: asFunctions },
    ],
  })
  const { output } = await build.write({
    dir: target,
    format: 'cjs',
    entryFileNames: 'parts/[name]-[hash].js',
    chunkFileNames: 'parts/[name]-[hash].js',
    comments: false,
    codeSplitting: { groups: together(), includeDependenciesRecursively: false },
  })
  await build.close()
  const [holder, loader] = [await bundleHolder(target), await bundleLoader()]
  await bundleThreads(target)
  const parts = output.filter(({ type }) => type === 'chunk')
  for (const { name, fileName } of parts.filter(({ isEntry }) => isEntry)) {
    begin(target, name, { part: basename(fileName), holder, loader })
  }
  await compileParts(join(target, 'parts'), {
    loader,
    entry: basename(parts.find(({ isEntry, name }) => isEntry && name === 'panel').fileName),
    names: parts.filter(({ isEntry }) => !isEntry).map(({ fileName }) => basename(fileName)),
  })
  // Of the older kind of module, whose loader Node has at hand and does not begin with a promise.
  writeFileSync(join(target, 'package.json'), `${JSON.stringify({ type: 'commonjs' })}\n`)
}

/** What loads the parts, as a text: it stands in the files that are run. */
async function bundleLoader() {
  const build = await rolldown({ input: join(root, 'bin', 'parts.ts'), platform: 'node' })
  const { output } = await build.generate({ format: 'cjs', comments: false })
  await build.close()
  return output[0].code
}

/**
 * What holds a server is of the older kind of module, and as short as it can be written: the loader of the newer kind and the text of what
 * runs stay in the memory of each of many holders.
 */
async function bundleHolder(target) {
  const build = await rolldown({
    input: join(root, 'bin', 'holder.ts'),
    platform: 'node',
    plugins: [
      { name: 'what stays outside', resolveId: outside },
      { name: 'one byte for each character', generateBundle: inAscii },
    ],
  })
  const { output } = await build.write({
    dir: join(target, 'holder'),
    format: 'cjs',
    entryFileNames: '[name]-[hash].js',
    chunkFileNames: '[name]-[hash].js',
    comments: false,
    minify: true,
  })
  await build.close()
  return `./holder/${output.find(({ isEntry }) => isEntry).fileName}`
}

/** Threads that are started again and again: each is one file of the older kind of module, which it reads by itself. */
async function bundleThreads(target) {
  const input = { 'measure-thread': join(root, 'src', 'agent', 'disk', 'measure-thread.ts') }
  const build = await rolldown({ input, platform: 'node' })
  await build.write({ dir: join(target, 'threads'), format: 'cjs', entryFileNames: '[name].js', comments: false })
  await build.close()
}

/** The file that is run: it says the version, which scripts ask for often, and loads the program for all else. */
function begin(target, name, { part, holder, loader }) {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const load = [
    'function load() {',
    'const exports = {}',
    loader,
    `exports.openParts(__dirname + '/parts').load(${JSON.stringify(part)})`,
    '}',
  ]
  const lines = [
    '#!/usr/bin/env node',
    "'use strict'",
    'const [word, ...more] = process.argv.slice(2)',
    "if ((word === '--version' || word === '-V') && more.length === 0) {",
    `  try { require('node:fs').writeSync(1, ${JSON.stringify(`${version}\n`)}) } catch { load() }`,
    `} else if (word === '__holder') require(${JSON.stringify(holder)})`,
    'else load()',
    ...load,
    '',
  ]
  writeFileSync(
    join(target, `${name}.js`),
    (name === 'panel' ? lines : ["'use strict'", 'load()', ...load, '']).join('\n'),
  )
}

/**
 * What every command loads lies in one part, and what daemon and agent share with it in another: else each module that has users of its own
 * would be a file of its own. What only some commands need stays apart, and what a holder loads, of which there is one per server.
 */
function together() {
  const apart =
    /[/](?:help-pages|pager|keyring|yaml-text|jq|guest-command|new-account|download|download-options|connector|secure-requests|trust)[.]ts$/
  const always =
    /^(?:src[/]cli[/](?:kit[/]|net[/]|tree)|src[/]shared[/](?:client|outline)|node_modules[/](?:commander|eventsource-parser)[/])/
  const common =
    /^src[/]shared[/](?:kernel[/](?:clock|errors|file-problem|host-problem|path-text|terminal-text)|platform[/](?:connection-cause|listener|listener-table))[.]ts$/
  const path = (id) => relative(root, id)
  return [
    { name: 'command', test: (id) => always.test(path(id)) && !apart.test(id) },
    { name: 'common', test: (id) => common.test(path(id)) },
  ]
}

/** The programs by their names. */
function programs() {
  const files = ['bin/panel.ts', ...more.filter((name) => name.endsWith('.ts'))]
  return Object.fromEntries(files.map((file) => [basename(file, '.ts'), join(root, file)]))
}

/** Puts the texts of help into the place of the module that makes them from the tree of commands. */
async function readyHelp(folder) {
  const { pages } = await import(pathToFileURL(join(folder, 'src', 'cli', 'kit', 'help-pages.js')).href)
  const texts = JSON.stringify(JSON.stringify([...pages]))
  const module = `export const pages = new Map(JSON.parse(${texts}))`
  return (id) => (id === join(root, 'src', 'cli', 'kit', 'help-pages.ts') ? module : null)
}

/**
 * Puts outlines of endpoints into the place of the contract for the command line, which asks and does not answer: to load the contract,
 * and the library that it is written in, takes longer than most commands run.
 */
async function outlines(folder) {
  const places = { cli: join(root, 'src', 'cli'), shared: join(root, 'src', 'shared') }
  const { outlineSource } = await import(
    pathToFileURL(join(folder, 'src', 'shared', 'outline', 'outline-source.js')).href
  )
  const mark = '?outline'
  return {
    resolveId(id, importer) {
      if (!importer?.startsWith(places.cli) || !/\/shared\/(?:api|kernel)\/[a-z-]+\.ts$/.test(id)) return null
      const file = resolve(dirname(importer), id)
      return importsZod(file) ? `${file}${mark}` : null
    },
    async load(id) {
      if (!id.endsWith(mark)) return null
      const contract = id.slice(0, -mark.length)
      const compiled = join(folder, relative(root, contract)).replace(/ts$/, 'js')
      const code = outlineSource(await import(pathToFileURL(compiled).href), {
        contract,
        outline: join(places.shared, 'outline', 'endpoint-outline.ts'),
        endpoints: join(places.shared, 'endpoints.ts'),
      })
      return { code, moduleType: 'js' }
    },
  }
}

/** Puts zod with late schemas into the place of zod, but for the module that makes it of zod. */
function lateSchemas() {
  const late = join(root, 'src', 'shared', 'kernel', 'late-schemas.ts')
  const mark = '?late'
  return {
    resolveId: (id, importer) =>
      id === 'zod' && importer?.startsWith(join(root, 'src')) && importer !== late ? `${late}${mark}` : null,
    load: (id) => (id.endsWith(mark) ? `export * as z from ${JSON.stringify(late)}` : null),
  }
}

function importsZod(file) {
  return /^import .* from 'zod'$/m.test(readFileSync(file, 'utf8'))
}

/** What is loaded on demand from outside of the parts is asked for by the call that `bin/parts.ts` gives them. */
function byLateCall(_, bundle) {
  for (const chunk of Object.values(bundle)) chunk.code = chunk.code.replace(/\bimport\((?=")/g, 'late(')
}

/** A part is the text of the function that `bin/parts.ts` calls: what is put together there would be in memory twice. */
function asFunctions(_, bundle) {
  for (const chunk of Object.values(bundle)) {
    chunk.code = `(function (exports, require, module, __filename, __dirname, late) {\n${chunk.code}\n})`
  }
}

/** V8 keeps the text of what it runs, with two bytes for each character as soon as one of them does not fit into one. The parts are read as ASCII. */
function inAscii(_, bundle) {
  for (const chunk of Object.values(bundle)) {
    chunk.code = chunk.code.replace(
      /[\u0080-\uFFFF]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
  }
}

function outside(id) {
  const [scope, name] = id.split('/')
  return OUTSIDE.includes(scope?.startsWith('@') ? `${scope}/${name}` : scope) ? { id, external: true } : null
}
