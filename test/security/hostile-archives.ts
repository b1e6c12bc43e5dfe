import { gzipSync } from 'node:zlib'
import { type Forged, forgeTar, forgeZip, paxRecord } from './tar-forge.ts'

const link = (name: string, target: string): Forged => ({ name, type: '2', target })
const file = (name: string, content = 'evil'): Forged => ({ name, content })

/** Each is refused as a whole, and leaves all as it was. */
export const REFUSED: readonly (readonly [string, () => Buffer])[] = [
  ['a tar with ".." before a name', () => forgeTar([file('../outside/secret')])],
  ['a tar with ".." within a name', () => forgeTar([file('a/../../outside/secret')])],
  ['a tar with an absolute name', () => forgeTar([file(`/etc/evil`)])],
  [
    'a tar with ".." in a name of GNU',
    () => forgeTar([{ name: 'x', type: 'L', content: '../outside/secret\0' }, file('x')]),
  ],
  [
    'a tar with ".." in a name of pax',
    () => forgeTar([{ name: 'x', type: 'x', content: paxRecord('path', '../outside/x') }, file('x')]),
  ],
  ['a tar whose folder is ".."', () => forgeTar([{ name: '../outside/', type: '5' }])],
  ['a tar with a good file before the bad one', () => forgeTar([file('good'), file('../bad')])],
  [
    'a tar with a further name of what is outside',
    () => forgeTar([{ name: 'x', type: '1', target: '../outside/secret' }]),
  ],
  ['a tar with a record of 1 GiB', () => forgeTar([{ name: 'x', type: 'L', size: 2 ** 30 }])],
  [
    'a tar with a record that lies of its length',
    () => forgeTar([{ name: 'x', type: 'x', content: '999 path=a\n' }, file('x')]),
  ],
  [
    'a tar with a size that is none',
    () => forgeTar([{ name: 'x', type: 'x', content: paxRecord('size', '-5') }, file('x')]),
  ],
  ['a tar with a size below zero', () => forgeTar([{ name: 'x', size: Buffer.alloc(12, 0xff) }])],
  ['a tar with a size of 2^80', () => forgeTar([{ name: 'x', size: Buffer.from('80040000000000000000000', 'hex') }])],
  ['a tar with a wrong checksum', () => forgeTar([{ ...file('x'), checksum: 5 }])],
  ['a tar that ends in the middle', () => forgeTar([{ name: 'x', content: 'half', size: 4000 }], true)],
  ['a tar that says to be 8 GiB', () => forgeTar([{ name: 'x', size: 0o77777777777 }])],
  [
    'a tar with a path of 8,000 bytes',
    () => forgeTar([{ name: 'x', type: 'L', content: `${'a/'.repeat(4000)}x\0` }, file('x')]),
  ],
  [
    'a tar with 65 folders below each other',
    () => forgeTar([{ name: 'x', type: 'L', content: `${'a/'.repeat(65)}x\0` }, file('x')]),
  ],
  [
    'a tar with a name of 300 bytes',
    () => forgeTar([{ name: 'x', type: 'L', content: `${'a'.repeat(300)}\0` }, file('x')]),
  ],
  ['bytes that are no archive', () => Buffer.from('hello there')],
  ['nothing', () => Buffer.alloc(0)],
  ['a gzip that is cut', () => gzipSync(forgeTar([file('x')])).subarray(0, 40)],
  ['a bomb by ratio', () => gzipSync(forgeTar([{ name: 'x', content: Buffer.alloc(16 * 1024 * 1024) }]), { level: 9 })],
  ['a zip with ".."', () => forgeZip([{ name: '../outside/secret', content: 'evil' }])],
  ['a zip with ".." of Windows', () => forgeZip([{ name: '..\\outside\\secret', content: 'evil' }])],
  ['a zip with an absolute name', () => forgeZip([{ name: '/etc/evil', content: 'evil' }])],
  ['a zip with NUL in a name', () => forgeZip([{ name: 'a\0b', content: 'evil' }])],
  [
    'a zip whose entries lie over each other',
    () =>
      forgeZip([
        { name: 'a', content: 'x'.repeat(100) },
        { name: 'b', content: 'y', offset: 0 },
      ]),
  ],
  ['a zip whose entry is larger than it says', () => forgeZip([{ name: 'a', content: 'xxxx', uncompressedSize: 2 }])],
  ['a zip that is encrypted', () => forgeZip([{ name: 'a', content: 'x', encrypted: true }])],
  ['a zip that is cut', () => forgeZip([{ name: 'a', content: 'x' }]).subarray(0, 50)],
]

/** Each is unpacked without what means harm; `left` is what is there afterwards. */
export const HARMLESS: readonly (readonly [string, () => Buffer, readonly string[]])[] = [
  [
    'a link out, then a file through it',
    () => forgeTar([link('way', '../outside'), file('way/secret')]),
    ['way', 'way/secret'],
  ],
  [
    'an absolute link, then a file through it',
    () => forgeTar([link('way', '/etc'), file('way/evil')]),
    ['way', 'way/evil'],
  ],
  ['a link that goes up and down', () => forgeTar([link('way', 'home/../../outside')]), []],
  ['a link in a folder that leaves it too far', () => forgeTar([link('a/way', '../../outside')]), ['a']],
  ['a file, then a link of its name', () => forgeTar([file('x'), link('x', '../outside/secret')]), ['x']],
  [
    'a link, then a folder of its name',
    () => forgeTar([link('x', 'home'), { name: 'x/', type: '5' }, file('x/y')]),
    ['x', 'x/y'],
  ],
  [
    'a further name of a link',
    () => forgeTar([link('l', '../outside/secret'), { name: 'x', type: '1', target: 'l' }]),
    [],
  ],
  [
    '".." in a global record',
    () => forgeTar([{ name: 'x', type: 'g', content: paxRecord('path', '../x') }, file('x')]),
    ['x'],
  ],
  ['a device', () => forgeTar([{ name: 'x', type: '3' }, file('good')]), ['good']],
  ['a FIFO', () => forgeTar([{ name: 'x', type: '6' }, file('good')]), ['good']],
  ['a sparse file of GNU', () => forgeTar([{ name: 'x', type: 'S' }, file('good')]), ['good']],
  ['a kind that nobody knows', () => forgeTar([{ name: 'x', type: 'Z' }, file('good')]), ['good']],
  ['a name of the agent’s own', () => forgeTar([file('.panel-upload-x'), file('good')]), ['good']],
  ['a file below a file', () => forgeTar([file('x'), file('x/y')]), ['x']],
  ['a file twice', () => forgeTar([file('x', 'first'), file('x', 'second')]), ['x']],
  ['a file where a link leads out', () => forgeTar([file('home/out/secret'), file('good')]), ['good']],
  [
    'a link of a zip that leads out',
    () =>
      forgeZip([
        { name: 'way', content: '../outside', mode: 0o120777 },
        { name: 'way/x', content: 'x' },
      ]),
    ['way', 'way/x'],
  ],
  [
    'a device of a zip',
    () =>
      forgeZip([
        { name: 'dev', mode: 0o020666 },
        { name: 'good', content: 'x' },
      ]),
    ['good'],
  ],
]
