// `npm install` builds, by the compilers of the development dependencies. Without them (an installed package) there is
// nothing to build: dist came with the package.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const compilers = ['typescript', 'rolldown'].map((name) => join(root, 'node_modules', name))
if ([...compilers, join(root, 'tsconfig.build.json')].every((path) => existsSync(path))) await import('./build.mjs')
