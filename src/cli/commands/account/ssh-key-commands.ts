import { type Argument, command, noun } from '../../kit/command.ts'
import { DELETE, IDEMPOTENCY, LIST } from '../../kit/option-sets.ts'

const actions = () => import('./ssh-keys.ts')
const KEY: Argument = { name: 'key', summary: 'its id, its name, or its fingerprint' }

/** One's own keys for SFTP and the console over SSH. */
export const sshKeys = noun({
  name: 'ssh-keys',
  aliases: ['ssh-key'],
  summary: 'Your SSH keys, for SFTP and the console over SSH',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List your SSH keys, newest first',
      options: LIST,
      examples: ['panel profile ssh-keys list'],
      endpoints: ['ssh_keys.list'],
      load: async () => (await actions()).listSshKeys,
    }),
    command({
      name: 'add',
      summary: 'Add a public key, as it stands in a file that ends in .pub',
      arguments: [{ name: 'file', summary: 'the file of the public key, - is stdin' }],
      options: [
        { flags: '--name <name>', summary: 'what it is called (default: the comment of the key)' },
        { flags: '--read-only', summary: 'who comes in by it changes nothing and types nothing' },
        IDEMPOTENCY,
      ],
      examples: [
        'panel profile ssh-keys add ~/.ssh/id_ed25519.pub',
        'panel profile ssh-keys add backup.pub --name backup --read-only',
      ],
      endpoints: ['ssh_keys.add'],
      exits: [7, 8],
      load: async () => (await actions()).addSshKey,
    }),
    command({
      name: 'delete',
      summary: 'Delete one of your SSH keys; sessions that came in by it end at once',
      arguments: [KEY],
      options: DELETE,
      examples: ['panel profile ssh-keys delete backup --yes'],
      endpoints: ['ssh_keys.delete'],
      exits: [6],
      load: async () => (await actions()).deleteSshKey,
    }),
  ],
})
