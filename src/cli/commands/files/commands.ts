import { command, noun } from '../../kit/command.ts'
import { one, YES } from '../../kit/option-sets.ts'

const PATH = { name: 'path', summary: 'the file, from the folder of the server on' } as const

const actions = () => import('./actions.ts')
const PLACE = { name: 'place', summary: 'server:path; \\xff stands for a byte that is no text' } as const
const PLACES = { name: 'place', summary: 'server:path, with patterns such as server:logs/*.log', many: true } as const
const FROM_TO = { name: 'place', summary: 'what, and at last where to', many: true } as const
const REPLACE = { flags: '-f, --force', summary: 'replace a file that is there' } as const
const DETACH = { flags: '--detach', summary: 'start it as a job and return at once' } as const
const NODE_EXITS = [6, 7, 8, 12] as const

export const files = noun({
  name: 'files',
  summary: 'Files of servers',
  group: 'Core',
  children: [
    command({
      name: 'get',
      summary: 'Download a file of a server',
      details: 'A connection that breaks is gone on with where it was. The local file appears whole or not at all.',
      arguments: [
        one('server'),
        PATH,
        { name: 'file', summary: 'where it is written: by default its own name here; - is stdout', optional: true },
      ],
      options: [{ flags: '--force', summary: 'replace a file that is there' }],
      examples: ['panel files get demo server.properties', 'panel files get demo world/level.dat - | sha256sum'],
      endpoints: ['files.read'],
      exits: [6, 7, 8, 12],
      load: async () => (await import('./get.ts')).get,
    }),
    command({
      name: 'put',
      summary: 'Upload a file to a server',
      details:
        'The file of the server is replaced when all of it has arrived; until then, and when the upload breaks, it stays as it was. ' +
        'A file, but not stdin, is gone on with where a broken connection left it.',
      arguments: [
        one('server'),
        PATH,
        { name: 'file', summary: 'what is sent: by default the file of that name here; - is stdin', optional: true },
      ],
      options: [
        { flags: '--if-absent', summary: 'refuse to replace a file (exit 7)' },
        { flags: '--if-match <etag>', summary: 'replace only the file with this etag (exit 7)' },
      ],
      examples: [
        'panel files put demo server.properties ./server.properties',
        "printf 'motd=hello' | panel files put demo server.properties -",
      ],
      endpoints: ['files.write'],
      exits: [6, 7, 8, 12],
      load: async () => (await import('./put.ts')).put,
    }),
    command({
      name: 'ls',
      aliases: ['list'],
      summary: 'List folders of servers',
      arguments: [PLACES],
      options: [{ flags: '-d, --directory', summary: 'a folder itself and not what is in it' }],
      examples: [
        'panel files ls demo',
        'panel files ls demo:world -o wide',
        "panel files ls 'demo:logs/*.log' -o json",
      ],
      endpoints: ['files.list', 'files.stat'],
      exits: NODE_EXITS,
      load: async () => (await actions()).list,
    }),
    command({
      name: 'cat',
      summary: 'Print files of servers',
      arguments: [PLACES],
      examples: ['panel files cat demo:server.properties', "panel files cat 'demo:logs/*.log' | grep ERROR"],
      endpoints: [],
      exits: NODE_EXITS,
      load: async () => (await actions()).cat,
    }),
    command({
      name: 'cp',
      summary: 'Copy files and folders within a server, to it or from it',
      details:
        'Either side is server:path or a local path; - is stdin or stdout. Within a server the copy appears when all of it is there. ' +
        'Between machines each file goes by itself, and is gone on with where a connection broke.',
      arguments: [FROM_TO],
      options: [{ flags: '-r, --recursive', summary: 'folders with all that is in them' }, REPLACE],
      examples: [
        'panel files cp ./server.properties demo:',
        'panel files cp -r demo:world ./backup',
        'panel files cp -r demo:world demo:world.old',
        'panel files cp -r demo:world other:backups',
      ],
      endpoints: ['files.copy', 'files.start_job'],
      exits: [3, 6, 7, 8, 11, 12],
      load: async () => (await import('./copy.ts')).copy,
    }),
    command({
      name: 'mv',
      summary: 'Rename or move files and folders within a server',
      arguments: [FROM_TO],
      options: [REPLACE],
      examples: ['panel files mv demo:world demo:world.old', "panel files mv 'demo:*.log' demo:logs"],
      endpoints: ['files.rename'],
      exits: NODE_EXITS,
      load: async () => (await actions()).move,
    }),
    command({
      name: 'rm',
      summary: 'Remove files and folders of servers',
      arguments: [PLACES],
      options: [
        { flags: '-r, --recursive', summary: 'folders with all that is in them' },
        { flags: '-f, --force', summary: 'what is not there is no failure' },
        YES,
      ],
      examples: ["panel files rm 'demo:logs/*.gz'", 'panel files rm -r --yes demo:world.old'],
      endpoints: ['files.delete_many'],
      exits: [3, 6, 7, 8, 11, 12],
      load: async () => (await actions()).remove,
    }),
    command({
      name: 'mkdir',
      summary: 'Make folders on servers',
      arguments: [PLACES],
      options: [{ flags: '-p, --parents', summary: 'those above as well; one that is there is no failure' }],
      examples: ['panel files mkdir -p demo:plugins/extra'],
      endpoints: ['files.create'],
      exits: NODE_EXITS,
      load: async () => (await actions()).mkdir,
    }),
    command({
      name: 'chmod',
      summary: 'Set the mode of files and folders of servers',
      details:
        'With -R folders get x where the mode has r, unless --folders says theirs. setuid, setgid and the sticky bit are taken away.',
      arguments: [{ name: 'mode', summary: 'three octal digits such as 755' }, PLACES],
      options: [
        { flags: '-R, --recursive', summary: 'all that is below as well' },
        { flags: '--folders <mode>', summary: 'the mode of folders below' },
      ],
      examples: ['panel files chmod 755 demo:start.sh', 'panel files chmod -R 640 demo:config'],
      endpoints: ['files.permissions'],
      exits: [3, 6, 7, 8, 11, 12],
      load: async () => (await actions()).chmod,
    }),
    command({
      name: 'ln',
      summary: 'Make a symbolic link on a server',
      arguments: [{ name: 'target', summary: 'the text of the link: relative, and to a place of the server' }, PLACE],
      examples: ['panel files ln versions/1.21 demo:current'],
      endpoints: ['files.link'],
      exits: NODE_EXITS,
      load: async () => (await actions()).link,
    }),
    command({
      name: 'edit',
      summary: 'Edit a file of a server in your editor',
      details: 'What was changed on the server meanwhile is not replaced (exit 7), and what you have written is kept.',
      arguments: [PLACE],
      options: [
        { flags: '--editor <command>', summary: 'instead of VISUAL or EDITOR' },
        { flags: '--create', summary: 'a file that is not there yet' },
      ],
      examples: ['panel files edit demo:server.properties'],
      endpoints: [],
      exits: [6, 7, 8, 11, 12, 14],
      load: async () => (await import('./edit.ts')).edit,
    }),
    command({
      name: 'du',
      summary: 'Show the largest folders of a server',
      arguments: [PLACE],
      options: [
        { flags: '--depth <n>', summary: 'how deep below (default 1)' },
        { flags: '-L, --limit <n>', summary: 'how many of them (default 50)' },
      ],
      examples: ['panel files du demo', 'panel files du demo:world --depth 3 --limit 10'],
      endpoints: ['files.usage'],
      exits: NODE_EXITS,
      load: async () => (await actions()).usageOf,
    }),
    command({
      name: 'find',
      summary: 'Search files of a server by name and content',
      arguments: [PLACE],
      options: [
        { flags: '--name <pattern>', summary: "the name, such as '*.log'" },
        { flags: '--text <text>', summary: 'files that have this text in a line' },
        { flags: '--regex <expression>', summary: 'files that have a line which fits this expression of RE2' },
        { flags: '-i, --ignore-case', summary: 'capital and small letters are the same' },
        { flags: '--type <kind>', summary: 'only these', choices: ['file', 'folder', 'link', 'other'] },
        { flags: '-L, --limit <n>', summary: 'how many of them (default 500)' },
        { flags: '--max-seconds <n>', summary: 'how long it looks (default 20, at most 60)' },
        { flags: '--unread', summary: 'name the files that were not read (at most 100), with the reason' },
      ],
      examples: ["panel files find demo --name '*.jar'", "panel files find demo:logs --text 'Exception' -i"],
      endpoints: ['files.search'],
      exits: [...NODE_EXITS, 15],
      load: async () => (await actions()).find,
    }),
    command({
      name: 'sum',
      summary: 'Print SHA-256 checksums of files of servers, as sha256sum does',
      arguments: [PLACES],
      examples: ['panel files sum demo:world/level.dat', 'cd copy && panel files sum demo:mods | sha256sum -c'],
      endpoints: ['files.checksums'],
      exits: [3, 6, 7, 8, 11, 12],
      load: async () => (await actions()).sum,
    }),
    command({
      name: 'tar',
      summary: 'Pack files and folders of a server into an archive there',
      details: 'The end of its name says which kind: .tar, .tar.gz, .tgz, .tar.xz, .tar.zst or .zip.',
      arguments: [{ name: 'archive', summary: 'server:path of the archive' }, PLACES],
      options: [REPLACE, DETACH],
      examples: ['panel files tar demo:world.tar.zst demo:world', "panel files tar demo:logs.zip 'demo:logs/*.log'"],
      endpoints: ['files.compress'],
      exits: [3, 6, 7, 8, 11, 12],
      load: async () => (await import('./archives.ts')).tar,
    }),
    command({
      name: 'untar',
      summary: 'Unpack an archive of a server there, or list what is in it',
      details:
        'tar by itself or with gz, xz or zst, and zip. Nothing appears before all of it was read; what leads out of the server is left out.',
      arguments: [
        { name: 'archive', summary: 'server:path of the archive' },
        { name: 'folder', summary: 'where to: by default the folder that it lies in', optional: true },
      ],
      options: [
        { flags: '-t, --list', summary: 'list it, and unpack nothing' },
        { flags: '-k, --keep', summary: 'leave files that are there as they are' },
        DETACH,
      ],
      examples: [
        'panel files untar demo:world.tar.gz',
        'panel files untar demo:pack.zip demo:mods',
        'panel files untar -t demo:pack.zip',
      ],
      endpoints: ['files.decompress', 'files.archive_contents'],
      exits: [3, 6, 7, 8, 11, 12],
      load: async () => (await import('./archives.ts')).untar,
    }),
    command({
      name: 'pull',
      summary: 'Fetch a file from a URL into a folder of a server',
      details:
        'The node itself asks. Private addresses, and ports other than 80, 443, 8080 and 8443, are refused, unless pull.allowedRanges ' +
        'and pull.allowedPorts of its agent.yaml have them.',
      arguments: [
        { name: 'url', summary: 'of http or https' },
        { ...PLACE, summary: 'server:path of a folder' },
      ],
      options: [{ flags: '--name <name>', summary: 'what it is called there' }, REPLACE, DETACH],
      examples: ['panel files pull https://example.org/mod.jar demo:mods'],
      endpoints: ['files.pull'],
      exits: NODE_EXITS,
      load: async () => (await import('./archives.ts')).pull,
    }),
    command({
      name: 'sync',
      summary: 'Make a folder of a server like one here, or the other way round',
      details:
        'Files of the same size are compared by their SHA-256, and only what differs is sent. Run again after a break, it goes on. ' +
        'Links and the like are left out.',
      arguments: [
        { name: 'from', summary: 'server:path, or a folder here' },
        { name: 'to', summary: 'the other side' },
      ],
      options: [
        { flags: '-n, --dry-run', summary: 'show the differences and change nothing' },
        { flags: '--delete', summary: 'delete there what is not here' },
        YES,
      ],
      examples: ['panel files sync --dry-run ./mods demo:mods', 'panel files sync demo:config ./config'],
      endpoints: [],
      exits: [3, 6, 7, 8, 11, 12, 14],
      load: async () => (await import('./sync.ts')).sync,
    }),
  ],
})
