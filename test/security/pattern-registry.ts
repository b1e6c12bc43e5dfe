/**
 * Whose text an expression sees: all but `operator` (who runs the program), `machine` (the kernel) and `program` (its own
 * texts) may be hostile. Every expression has to be quick all the same; see patterns.test.ts.
 */
export type Source =
  | 'game'
  | 'template'
  | 'client'
  | 'agent'
  | 'daemon'
  | 'panel'
  | 'plugin'
  | 'remote host'
  | 'operator'
  | 'machine'
  | 'program'

/** The expressions of one file as they stand there, and the most foreign text that they see. */
export interface FilePatterns {
  readonly sees: Source
  readonly patterns: readonly string[]
  /** Expressions that are made while the program runs, and what bounds them. */
  readonly made?: Readonly<Record<string, string>>
}

/** Expressions that no source file may have beside these; a new one is added here, with whose text it sees. */
export const REGISTRY: Readonly<Record<string, FilePatterns>> = {
  'src/daemon/core/cron-text.ts': {
    sees: 'client',
    patterns: [
      String.raw`/^(?:L|LW|(?:[1-9]|[12]\d|3[01])W)$/i`,
      '/^(?:[0-7]|[a-z]{3})(?:L|#[1-5])$/i',
      String.raw`/\s+/`,
      '/^CronPattern: /',
      String.raw`/^\d{1,2}$/`,
      String.raw`/^\d{1,2}$/`,
    ],
  },
  'src/shared/kernel/file-problem.ts': { sees: 'operator', patterns: [String.raw`/^\/dev\/(?:fd\/\d+|stdin)$/`] },
  'src/shared/kernel/shell-word.ts': { sees: 'operator', patterns: [String.raw`/^[\w./:@+=-]+$/`] },
  'src/shared/kernel/schedule.ts': { sees: 'client', patterns: [String.raw`/^[^\r\n\u0000]*$/`] },
  'src/cli/commands/migration/request.ts': {
    sees: 'operator',
    patterns: [
      String.raw`/^\d+$/`,
      String.raw`/^(\d{1,5})-(\d{1,5})$/`,
      String.raw`/^\d{1,5}(\.\d{1,3})?$/`,
      String.raw`/^(\d{1,12}(?:\.\d{1,3})?)([kmg])?(?:i?b)?(?:\/s)?$/i`,
    ],
  },
  'src/cli/commands/migration/report-text.ts': {
    sees: 'remote host',
    patterns: ['/&/g', '/</g', '/>/g', '/[\\\\`*_{}[\\]()#+!|~]/g'],
  },
  'src/shared/api/migration.ts': {
    sees: 'client',
    patterns: ['/^[0-9a-f]{64}$/', String.raw`/^[\x21-\x7e]{8,512}$/`, '/^https?$/', 'z.url({protocol:/^https?$/})'],
  },
  'src/daemon/features/operations/migration/steps/fetch-archive.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^\[|\]$/g`],
  },
  'src/daemon/features/operations/migration/steps/import-backup.ts': {
    sees: 'remote host',
    patterns: ['/[^A-Za-z0-9._-]+/g'],
  },
  'src/daemon/features/operations/migration/steps/import-schedule.ts': {
    sees: 'remote host',
    patterns: [String.raw`/\r?\n/`],
  },
  'src/daemon/features/operations/migration/plan/fitting-name.ts': {
    sees: 'remote host',
    patterns: [String.raw`/[/\\<>\ufffd]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu`],
  },
  'src/daemon/features/operations/migration/steps/import-template.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^\w{1,191}$/`],
  },
  'src/daemon/features/operations/migration/steps/tar-of-tree.ts': {
    sees: 'remote host',
    patterns: ['/^[ -~]*$/', '/[^ -~]/'],
  },
  'src/daemon/features/operations/migration/plan/users.ts': { sees: 'remote host', patterns: ['/[^A-Za-z0-9_-]/g'] },
  'src/shared/platform/connection-cause.ts': {
    sees: 'remote host',
    patterns: [
      String.raw`/^(ENOTFOUND|EAI_\w+)$/`,
      '/^ECONNREFUSED$/',
      '/^(EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL)$/',
      String.raw`/^(ETIMEDOUT|UND_ERR_\w*TIMEOUT)$/`,
      '/^(?:ERR_O?SSL|ERR_TLS|EPROTO$|UNABLE_TO_)|CERT/',
      String.raw`/\s+/g`,
    ],
  },
  'src/daemon/features/operations/migration/source/http.ts': {
    sees: 'remote host',
    patterns: [
      '/^[!-~]{1,500}$/',
      String.raw`/\b(?:ptl[ac]|papp|pacc)_\w{1,200}/g`,
      String.raw`/\beyJ[\w-]{1,2000}(?:\.[\w-]{1,2000}){0,2}/g`,
      String.raw`/\b(token|signature|credential)=[^\s&"']{1,2000}/gi`,
      String.raw`/^\d{1,9}$/`,
    ],
  },
  'src/daemon/features/operations/migration/source/node-tree.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^[\w.-]{1,500}$/`, '/^[0-7]{1,6}$/'],
  },
  'src/daemon/features/operations/migration/source/rows.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^-?\d{1,15}$/`],
  },
  'src/daemon/features/operations/migration/source/views.ts': {
    sees: 'remote host',
    patterns: [
      'z.url()',
      'z.uuid()',
      'z.uuid()',
      '/^sha1:([0-9a-f]{40})$/i',
      String.raw`/^[^\p{C}\p{Z}@<>()[\]\\,;:"]+@[^\p{C}\p{Z}@<>()[\]\\,;:"]+$/u`,
    ],
  },
  'src/cli/commands/self-backup/restore.ts': {
    sees: 'operator',
    patterns: ['/^[A-Za-z0-9_-]+$/', String.raw`/\.amazonaws\.com(\.cn)?$/i`],
  },
  'src/daemon/features/operations/self-backups/archive.ts': {
    sees: 'operator',
    patterns: ['/^[0-9a-f]{64}$/', '/^(ENOSPC|EDQUOT|EACCES|EPERM|EROFS|EIO|EMFILE|BACKUP_STORE_FAILED)$/'],
  },
  'src/daemon/features/operations/self-backups/places.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^panel-\d{8}T\d{6}Z-[0-9a-z]{8}\.tar\.gz$/`, String.raw`/[:-]|\.\d+/g`],
  },
  'src/daemon/features/operations/self-backups/sealed-key.ts': {
    sees: 'operator',
    patterns: ['z.base64()', 'z.base64()'],
  },
  'src/daemon/features/operations/stores/operations.ts': {
    sees: 'client',
    patterns: [String.raw`/\.amazonaws\.com(\.cn)?$/i`],
  },
  'src/daemon/object-store/s3-store.ts': {
    sees: 'remote host',
    patterns: [String.raw`/[:-]|\.\d{3}/g`, String.raw`/[\p{Cc}\p{Cf}\s]+/gu`],
  },
  'src/daemon/object-store/s3-xml.ts': { sees: 'remote host', patterns: ['/<!(?:DOCTYPE|ENTITY)/i', `/[<>&"']/g`] },
  'src/shared/api/backup-stores.ts': {
    sees: 'client',
    patterns: [
      String.raw`/^https?:\/\/(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/`,
      '/^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/',
      String.raw`/^(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}){0,7})?$/`,
      '/^[A-Za-z0-9-]{1,64}$/',
      '/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/',
    ],
  },
  'src/shared/protocol/migration.ts': {
    sees: 'client',
    patterns: [
      '/^[0-9a-f]{40}$/',
      '/^[0-9a-f]{64}$/',
      '/^[A-Za-z0-9_-]{43}$/',
      '/^[A-Za-z0-9_-]{1,64}$/',
      '/^[A-Za-z_][A-Za-z0-9_]{0,99}$/',
    ],
  },
  'src/shared/protocol/backups.ts': {
    sees: 'agent',
    patterns: [
      '/^[A-Za-z0-9_-]{1,64}$/',
      '/^[0-9a-f]{64}$/',
      '/^[A-Za-z0-9_-]{43}$/',
      '/^[0-9a-f]{32}$/',
      '/^[A-Za-z0-9._-]{1,200}$/',
      String.raw`/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}){0,7}$/`,
    ],
  },
  'src/agent/query/armagetron.ts': { sees: 'game', patterns: ['/0x(?:[0-9a-f]{6}|RESETT)/gi'] },
  'src/agent/query/player-watch.ts': { sees: 'daemon', patterns: ['/^[0:]+$/'] },
  'src/agent/query/quake3.ts': { sees: 'game', patterns: [String.raw`/\^[^^]/g`] },
  'src/agent/files/list.ts': { sees: 'game', patterns: ['/^[ -~]*$/'] },
  'src/agent/files/archive/pack.ts': { sees: 'game', patterns: ['/^[A-Za-z]:/'] },
  'src/agent/files/archive/tar-read.ts': {
    sees: 'client',
    patterns: [String.raw`/[\0 ]+/g`, '/^[0-7]+$/', String.raw`/^\d{1,16}$/`],
  },
  'src/agent/files/pull.ts': {
    sees: 'remote host',
    patterns: ['/^"|"$/g', String.raw`/[/\\]/`],
  },
  'src/agent/files/reach.ts': { sees: 'remote host', patterns: [String.raw`/^\[|\]$/g`] },
  'src/agent/sftp/line-input.ts': { sees: 'client', patterns: [String.raw`/\u001b(?:\[[0-9;?]{0,16}[@-~]|O.|.)/g`] },
  'src/agent/sftp/openssh-key.ts': {
    sees: 'machine',
    patterns: [
      '/.{1,70}/g',
      String.raw`/^-----BEGIN OPENSSH PRIVATE KEY-----\r?\n([A-Za-z0-9+/=\s]+)\r?\n-----END OPENSSH PRIVATE KEY-----$/`,
    ],
  },
  'src/agent/sftp/shell.ts': { sees: 'game', patterns: [String.raw`/[\r\n]+/g`] },
  'src/agent/sftp/ssh-server.ts': { sees: 'machine', patterns: [String.raw`/^::ffff:(?=\d+\.)/i`] },
  'src/daemon/features/accounts/ssh-keys/public-key.ts': {
    sees: 'client',
    patterns: [String.raw`/[\r\n]/`, String.raw`/[ \t]+/`, '/^[A-Za-z0-9+/]{16,}={0,2}$/'],
  },
  'src/daemon/features/servers/sftp/rows.ts': { sees: 'client', patterns: ['/^sftp_[0-9a-f]{64}$/'] },
  'src/agent/server/commands.ts': { sees: 'daemon', patterns: ['/^[A-Za-z0-9_-]{1,64}$/'] },
  'src/agent/disk/btrfs-quota.ts': { sees: 'machine', patterns: ['/\\s+/'] },
  'src/agent/disk/find-quota.ts': { sees: 'machine', patterns: ['/not enabled|not found/i'] },
  'src/agent/disk/project-quota.ts': { sees: 'machine', patterns: ['/\\s+/'] },
  'src/agent/config.ts': {
    sees: 'operator',
    patterns: [
      '/^PANEL_[A-Z]+__/',
      String.raw`/^PANEL_(?:(?:HTTP|DATA|CONSOLE|LIMITS)__\w+|AGENT__EMBEDDED)$/`,
      String.raw`/^\d+$/`,
      '/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/',
      '/^[a-z0-9][a-z0-9.:-]{0,252}$/',
      '/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/',
    ],
  },
  'src/agent/backups/increment.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^backups\/([A-Za-z0-9_-]{1,64})\/backup\.json$/`],
  },
  'src/agent/backups/listing.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^(?:([A-Za-z0-9_-]{1,64})\/)?backups\/([A-Za-z0-9_-]{1,64})\/backup\.json$/`],
  },
  'src/agent/backups/manifest.ts': { sees: 'remote host', patterns: ['/^[0-9a-f]{64}$/'] },
  'src/agent/backups/prune.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^backups\/([A-Za-z0-9_-]{1,64})\//`],
  },
  'src/agent/backups/repository.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^[0-9a-f]{32}-\d{1,9}$/`, '/^[0-9a-f]{64}$/'],
  },
  'src/agent/backups/store.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}){0,7}$/`],
  },
  'src/agent/backups/stores.ts': { sees: 'machine', patterns: ['/^[A-Za-z0-9_-]{1,64}$/'] },
  'src/agent/link/connect.ts': { sees: 'operator', patterns: ['/^(?:http|ws):/i'] },
  'src/agent/link/daemon-connection.ts': { sees: 'remote host', patterns: ['/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/'] },
  'src/agent/console/type-line.ts': {
    sees: 'game',
    patterns: [
      String.raw`/\u00A7[0-9a-fk-orx]/gi`,
      String.raw`/[\u0000-\u0008\u000a-\u001f\u007f]/`,
      String.raw`/\r?\n/`,
    ],
  },
  'src/agent/holder/process/terminal.ts': { sees: 'machine', patterns: [String.raw`/[\s;]+/`] },
  'src/agent/config-files/ini.ts': {
    sees: 'game',
    patterns: [
      String.raw`/\r?\n$/`,
      String.raw`/\r?\n/`,
      String.raw`/^\s*\[([^\]]*)\]/`,
      String.raw`/^\[([^\]]+)\]\.(.+)$/`,
      String.raw`/[\r\n]/`,
    ],
  },
  'src/agent/config-files/json-document.ts': {
    sees: 'game',
    patterns: [String.raw`/^[{[]\r?\n([ \t]+)/`, String.raw`/[\n]/`],
  },
  'src/agent/config-files/plain-lines.ts': {
    sees: 'game',
    patterns: [String.raw`/(?<=\n)/`, String.raw`/\r?\n?$/`, String.raw`/[\r\n]/`],
  },
  'src/agent/config-files/properties.ts': {
    sees: 'game',
    patterns: [
      String.raw`/(?<=\n)/`,
      String.raw`/^[ \t\f]*[#!]/`,
      String.raw`/\\\r?\n[ \t\f]*/g`,
      String.raw`/\r?\n$/`,
      String.raw`/^[ \t\f]+/`,
      String.raw`/^[ \t\f]*[=:]?[ \t\f]*/`,
      String.raw`/\\(?:u([0-9a-fA-F]{4})|(.))/g`,
      String.raw`/[\\\n\r\t\f]/g`,
      '/[ =:#!]/g',
      '/^ /',
      String.raw`/[^\x20-\x7e]/g`,
    ],
  },
  'src/agent/config-files/setting.ts': {
    sees: 'game',
    patterns: [String.raw`/\$\{(\d{1,2})\}/g`],
    made: { 'RE2JS.compile(pattern)': 'RE2, with bounded steps' },
  },
  'src/agent/files/search-thread.ts': {
    sees: 'game',
    patterns: [],
    made: {
      'RE2JS.compile(pattern, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0)':
        'RE2, with bounded steps, in a thread that is ended when it takes too long',
    },
  },
  'src/cli/commands/backups/settings.ts': {
    sees: 'operator',
    patterns: [String.raw`/^([^=]+)=(\d{1,6})(?:\/(\d{1,6})d)?$/`],
  },
  'src/daemon/features/servers/backups/reads.ts': {
    sees: 'agent',
    patterns: [String.raw`/\.sql$/`, String.raw`/^\/+/`, '/[^A-Za-z0-9._-]/g'],
  },
  'src/daemon/features/servers/backups/scan.ts': {
    sees: 'agent',
    patterns: ['/^[A-Za-z0-9._-]+$/', '/^[a-z0-9][a-z0-9._-]{0,39}$/'],
  },
  'src/daemon/features/servers/databases/mysql-dump.ts': {
    sees: 'remote host',
    patterns: [
      '/(?:virtual|stored|persistent)/i',
      String.raw`/\bDEFINER\s{0,9}=\s{0,9}${'`'}(?:[^${'`'}]|${'``'}){0,200}${'`'}@${'`'}(?:[^${'`'}]|${'``'}){0,300}${'`'}\s{0,9}/i`,
      String.raw`/[\0\n\r\x1a'\\]/g`,
    ],
  },
  'src/daemon/features/servers/databases/database-copy.ts': {
    sees: 'agent',
    patterns: [String.raw`/^CREATE\s{1,9}(?:OR\s{1,9}REPLACE\s{1,9})?TRIGGER\b/i`],
  },
  'src/daemon/features/servers/databases/sql-statements.ts': {
    sees: 'agent',
    patterns: [
      String.raw`/^DELIMITER[ \t]/`,
      String.raw`/^\$(?:[A-Za-z_][A-Za-z0-9_]{0,62})?\$/`,
      String.raw`/--[^\n]*(?:\n|$)/g`,
      String.raw`/\S/`,
    ],
  },
  'src/shared/api/backups.ts': {
    sees: 'client',
    patterns: [
      String.raw`/^[^\0\n\r]+$/`,
      String.raw`/^[^\0\n\r]+$/`,
      '/[^A-Za-z0-9._-]/g',
      '/^[a-z0-9][a-z0-9._-]{0,39}$/',
    ],
  },
  'src/cli/commands/files/actions.ts': { sees: 'panel', patterns: [String.raw`/^\//`] },
  'src/cli/commands/files/local-name.ts': { sees: 'panel', patterns: [String.raw`/[/\0]/`] },
  'src/cli/commands/files/edit.ts': { sees: 'operator', patterns: [String.raw`/[^\w.-]/g`] },
  'src/cli/commands/files/remote.ts': { sees: 'operator', patterns: [String.raw`/\\x([89a-f][\da-f])/i`] },
  'src/cli/commands/files/views.ts': { sees: 'program', patterns: ['/./g'] },
  'src/daemon/features/servers/files/changes.ts': { sees: 'client', patterns: [String.raw`/[/\\]/`] },
  'src/shared/kernel/path-text.ts': { sees: 'client', patterns: [String.raw`/^[\da-f]{2}$/i`] },
  'src/shared/protocol/file-operations.ts': {
    sees: 'agent',
    patterns: ['/^[0-9a-f]{32}$/', '/^[A-Za-z0-9_-]{43}$/', '/^[0-9a-f]{64}$/'],
  },
  'src/agent/config-files/toml-document.ts': {
    sees: 'game',
    patterns: [String.raw`/\x7f/g`, '/^[A-Za-z0-9_-]+$/'],
  },
  'src/agent/config-files/typed-value.ts': {
    sees: 'game',
    patterns: [String.raw`/^-?(?:0|[1-9]\d{0,14})$/`],
  },
  'src/agent/config-files/value-path.ts': {
    sees: 'game',
    patterns: [String.raw`/^([^[\]]*)((?:\[\d{1,6}\])*)$/`, String.raw`/[[\]]+/`],
  },
  'src/agent/config-files/xml-document.ts': {
    sees: 'game',
    patterns: [
      String.raw`/^\[([A-Za-z_][\w.:-]{0,100})=(?:'([^']*)'|"([^"]*)")\]$/`,
      '/<!(?:DOCTYPE|ENTITY)/i',
      String.raw`/^[A-Za-z_][\w.-]*$/`,
      String.raw`/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u`,
    ],
  },
  'src/cli/commands/templates/sources/archive-source.ts': {
    sees: 'remote host',
    patterns: [String.raw`/[\p{Cc}\\]|^[A-Za-z]:/u`],
  },
  'src/cli/commands/templates/sources/git-source.ts': {
    sees: 'remote host',
    patterns: ['/^[A-Za-z0-9_][A-Za-z0-9_./+-]{0,199}$/', '/ +/'],
  },
  'src/cli/commands/templates/sources/read-source.ts': {
    sees: 'operator',
    patterns: [
      String.raw`/^[A-Za-z0-9_.-]{1,64}@[A-Za-z0-9.-]{1,255}:[^\s:][^\s]{0,1000}$/`,
      String.raw`/^\.?\/+|\/+$/g`,
      String.raw`/^(?:https|ssh):\/\//i`,
      '/^[a-z][a-z0-9+.-]*:/i',
    ],
  },
  'src/cli/commands/templates/sources/actions.ts': { sees: 'template', patterns: [String.raw`/\s+/g`] },
  'src/cli/commands/templates/sources/source-eggs.ts': {
    sees: 'template',
    patterns: [String.raw`/(?:PTDL|PLCN)_v\d/`],
  },
  'src/shared/protocol/spec-capabilities.ts': { sees: 'template', patterns: [String.raw`/\{\{[^{}|]*\|/`] },
  'src/agent/server/shell.ts': {
    sees: 'machine',
    patterns: ['/executable file not found|no such file or directory|not found in \\$PATH/i'],
  },
  'src/agent/files/folder-handle.ts': {
    sees: 'program',
    patterns: [String.raw`/^mnt_id:\s*(\d+)/m`],
  },
  'src/agent/engine/engine.ts': { sees: 'machine', patterns: [String.raw`/\p{Cc}+/gu`] },
  'src/agent/holder/docker/engine-log.ts': { sees: 'machine', patterns: [String.raw`/\.(\d{1,9})/`] },
  'src/agent/runtime/docker/container-network.ts': { sees: 'machine', patterns: [String.raw`/\s+/`] },
  'src/shared/kernel/cpu-set.ts': { sees: 'program', patterns: [String.raw`/^(\d{1,4})(?:-(\d{1,4}))?$/`] },
  'src/agent/engine/containers.ts': { sees: 'machine', patterns: ['/^[0-9a-f]{12,64}$/'] },
  'src/agent/holder/docker/container-child.ts': { sees: 'machine', patterns: ['/^[0-9a-f]{12,64}$/'] },
  'src/agent/runtime/docker/engine-networks.ts': {
    sees: 'program',
    patterns: ['/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/'],
  },
  'src/agent/runtime/docker/image-name.ts': {
    sees: 'template',
    patterns: [
      String.raw`/^[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?$/`,
      String.raw`/^[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*$/`,
      String.raw`/^\w[\w.-]{0,127}$/`,
      '/^sha256:[0-9a-f]{64}$/',
    ],
  },
  'src/agent/holder/process/begin.ts': { sees: 'machine', patterns: [String.raw`/^Max open files\s+\S+\s+(\S+)/m`] },
  'src/agent/holder/cgroup.ts': {
    sees: 'machine',
    patterns: [
      String.raw`/^oom_kill (\d+)/m`,
      String.raw`/^usage_usec (\d+)/m`,
      String.raw`/^inactive_file (\d+)/m`,
      String.raw`/^total_inactive_file (\d+)/m`,
    ],
  },
  'src/agent/holder/inherited-files.ts': { sees: 'machine', patterns: [String.raw`/^flags:\s+(\d+)/m`] },
  'src/agent/holder/proc.ts': {
    sees: 'machine',
    patterns: [
      String.raw`/^\d+$/`,
      String.raw`/^Uid:\t(\d+)/m`,
      String.raw`/^read_bytes: (\d+)/m`,
      String.raw`/^write_bytes: (\d+)/m`,
    ],
    made: { "new RegExp(`^${name}:\\\\s+(\\\\d+) kB`, 'm')": "constant names; of the kernel's own text" },
  },
  'src/agent/holder/process/user-namespace.ts': { sees: 'machine', patterns: [String.raw`/\s+/`] },
  'src/agent/server/install.ts': { sees: 'template', patterns: [String.raw`/\r\n?/g`] },
  'src/agent/state/journal-file.ts': { sees: 'machine', patterns: [String.raw`/^\0+/`] },
  'src/agent/state/layout.ts': { sees: 'daemon', patterns: ['/^[A-Za-z0-9_-]{1,64}$/'] },
  'src/agent/console/log/record.ts': { sees: 'game', patterns: [String.raw`/[\x00-\x08\x0a-\x1a\x1c-\x1f]/g`] },
  'src/agent/console/log/segments.ts': { sees: 'game', patterns: [String.raw`/^(\d{16})\.log$/`] },
  'src/agent/node/node-health.ts': {
    sees: 'machine',
    patterns: [String.raw`/^MemAvailable:\s+(\d+) kB/m`, String.raw`/\s+/`],
  },
  'src/agent/server/orphans.ts': { sees: 'machine', patterns: ['/^[A-Za-z0-9_-]{1,64}$/'] },
  'src/agent/server/ports.ts': { sees: 'machine', patterns: [String.raw`/^\d+$/`] },
  'src/agent/server/ready-thread.ts': {
    sees: 'game',
    patterns: [String.raw`/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g`],
    made: {
      'RE2JS.compile(expression)': 'in a thread of its own, ended when it takes too long: template-author.test.ts',
    },
  },
  'src/agent/console/requests.ts': { sees: 'game', patterns: [String.raw`/[\u0000\r\n]/`] },
  'src/agent/runtime/process/cgroup-places.ts': { sees: 'machine', patterns: ['/[^A-Za-z0-9_-]/g'] },
  'src/agent/runtime/run-handle.ts': { sees: 'machine', patterns: [String.raw`/[\r\n]/`] },
  'src/agent/runtime/sockets.ts': { sees: 'machine', patterns: [String.raw`/\s+/`, '/.{8}/g', '/.{4}/g'] },
  'src/cli/commands/account/profile-actions.ts': { sees: 'operator', patterns: [String.raw`/^-?\d{1,15}(\.\d+)?$/`] },
  'src/cli/kit/args.ts': { sees: 'operator', patterns: [String.raw`/^\d{1,15}$/`] },
  'src/cli/commands/audit/verify.ts': { sees: 'panel', patterns: [String.raw`/^\d+$/`, '/^[0-9a-f]{64}$/'] },
  'src/cli/kit/command.ts': { sees: 'operator', patterns: ['/--(?:no-)?([a-z][a-z0-9-]*)/', '/[<[]/'] },
  'src/cli/commands/console/attach.ts': { sees: 'operator', patterns: [String.raw`/[^\w.@-]/g`] },
  'src/cli/tui/detach-message.ts': { sees: 'operator', patterns: [String.raw`/^\w[\w.-]*$/`] },
  'src/cli/commands/console/history.ts': {
    sees: 'operator',
    patterns: [String.raw`/^[0-9a-z]{1,40}-\d{1,15}$/`, String.raw`/^\d{1,15}$/`],
  },
  'src/cli/commands/console/line.ts': {
    sees: 'game',
    patterns: ['/[A-Z]/'],
    made: { 'RE2JS.compile(text, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0)': "RE2 on one line; the operator's own" },
  },
  'src/cli/commands/console/pages.ts': { sees: 'operator', patterns: [String.raw`/^[0-9a-z]{1,40}-(\d{1,15})$/`] },
  'src/cli/commands/db-hosts/actions.ts': { sees: 'operator', patterns: ['/^--/'] },
  'src/cli/kit/environment.ts': { sees: 'operator', patterns: [String.raw`/^\d{1,10}$/`] },
  'src/cli/commands/events/follow.ts': {
    sees: 'operator',
    patterns: [String.raw`/\*+/g`, '/[.+^${}()|[\\]\\\\]/g'],
    made: { 'new RegExp(`^${text}$`)': "the operator's own, on names of events that the program knows" },
  },
  'src/cli/kit/field-names.ts': {
    sees: 'panel',
    patterns: [
      String.raw`/^(?:(?:body|query|params)(?:\.|$))?(.*)$/s`,
      String.raw`/^\d+$/`,
      String.raw`/\b(?:body|query|params)\.[A-Za-z][\w.]*\w/g`,
      String.raw`/(?<![\w.-])[a-z]+[A-Z]\w*\b/g`,
      '/^(?:new|current)(?=[A-Z])/',
      '/Ids?$/',
      '/[A-Z]/g',
      '/^-/',
    ],
  },
  'src/cli/kit/guest-command.ts': { sees: 'operator', patterns: [String.raw`/^\[|\]$/g`] },
  'src/cli/kit/help-request.ts': { sees: 'operator', patterns: ['/<[^<>]+>/', '/[ ,]+/'] },
  'src/cli/kit/instant.ts': {
    sees: 'operator',
    patterns: [String.raw`/^\d{4}-\d{2}-\d{2}/`, String.raw`/^\d{4}-\d{2}-\d{2}/`],
  },
  'src/cli/kit/invoke.ts': { sees: 'operator', patterns: [String.raw`/^(?:--output=|-o=?)(\w+)$/`] },
  'src/cli/man.ts': {
    sees: 'operator',
    patterns: ['/[.!?]$/', '/(?<=[.!?]) (?=[A-Z`])/', '/^[A-Z][a-z]/', "/^([.'])/", String.raw`/[^\u0020-\u007e]/g`],
  },
  'src/cli/kit/output/csv.ts': {
    sees: 'game',
    patterns: [String.raw`/^[=+\-@\t\r]/`, String.raw`/^[+-]?\d+(\.\d+)?$/`, String.raw`/[",\r\n]/`],
  },
  'src/cli/kit/output/escape.ts': {
    sees: 'game',
    patterns: [
      String.raw`/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g`,
      String.raw`/\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])|\u009b[0-?]*[ -/]*[@-~]/g`,
      String.raw`/^\u001b\[[\d;:]*m$/`,
      String.raw`/\u001b(?!\[[\d;:]*m)/g`,
    ],
  },
  'src/cli/kit/output/jq.ts': { sees: 'panel', patterns: ['/^jq: (error: )?/'] },
  'src/cli/kit/output/output.ts': { sees: 'game', patterns: [String.raw`/[\r\n]/g`] },
  'src/cli/kit/output/table.ts': {
    sees: 'game',
    patterns: [
      String.raw`/^[\u0020-\u007e]*$/`,
      String.raw`/^(?:\p{M}|[\u200b-\u200d])$/u`,
      String.raw`/^[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]$/u`,
    ],
  },
  'src/cli/kit/output/yaml-text.ts': { sees: 'game', patterns: [String.raw`/[\n\t]/g`] },
  'src/cli/kit/profile/files.ts': { sees: 'operator', patterns: ['/:$/', String.raw`/at line \d+/`] },
  'src/cli/kit/profile/target.ts': {
    sees: 'operator',
    patterns: ['/^[!-~]*$/', String.raw`/\s/`, String.raw`/\/{2,}/g`],
  },
  'src/cli/kit/profile/contexts.ts': { sees: 'operator', patterns: ['/^[A-Za-z0-9._@-]{1,64}$/'] },
  'src/cli/kit/program.ts': { sees: 'operator', patterns: ['/^error: /', String.raw`/\n/`, "/'(-y|--yes)'/"] },
  'src/cli/kit/prompt.ts': { sees: 'operator', patterns: [String.raw`/\r?\n/`] },
  'src/cli/commands/nodes/actions.ts': {
    sees: 'operator',
    patterns: [String.raw`/[\s,]+/`, String.raw`/^\d{1,9}$/`, String.raw`/^\d{1,9}$/`],
  },
  'src/cli/commands/providers/actions.ts': { sees: 'operator', patterns: ['/^--/'] },
  'src/cli/kit/read-file.ts': {
    sees: 'operator',
    patterns: [String.raw`/\r?\n/`, String.raw`/^\s*(#|$)/`, String.raw`/^\s*export\s+/`],
  },
  'src/cli/kit/report.ts': { sees: 'panel', patterns: ['/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/'] },
  'src/cli/kit/resource/fields.ts': {
    sees: 'operator',
    patterns: [String.raw`/^-?\d+(\.\d+)?$/`, String.raw`/^(\d+(?:\.\d+)?)\s*([mgt])?(?:i?b)?$/i`],
  },
  'src/cli/kit/resource/id.ts': { sees: 'operator', patterns: ['/^[0-9a-hjkmnp-tv-z]{26}$/'] },
  'src/cli/commands/servers/wait.ts': { sees: 'operator', patterns: ['/^state=(.+)$/'] },
  'src/cli/commands/session/browser-trip.ts': { sees: 'operator', patterns: [String.raw`/^https?:\/\//i`] },
  'src/cli/commands/session/login.ts': { sees: 'operator', patterns: [String.raw`/^\d{6}$/`] },
  'src/cli/commands/session/loopback.ts': { sees: 'operator', patterns: ['/[&<>"\']/g'] },
  'src/cli/commands/session/one-time-code.ts': { sees: 'operator', patterns: [String.raw`/\s/g`, String.raw`/\r?\n/`] },
  'src/cli/commands/session/recovery.ts': { sees: 'operator', patterns: [String.raw`/\r?\n/`] },
  'src/cli/commands/settings/changes.ts': { sees: 'operator', patterns: ['/^--/'] },
  'src/cli/commands/settings/flag-name.ts': { sees: 'operator', patterns: ['/[A-Z]/g'] },
  'src/cli/commands/settings/oidc.ts': { sees: 'operator', patterns: ['/^--/'] },
  'src/cli/net/requests.ts': { sees: 'operator', patterns: ['/^https:/'] },
  'src/cli/commands/tooling/api.ts': {
    sees: 'operator',
    patterns: [String.raw`/^[a-z]+:\/\//i`, String.raw`/^\/[/\\]/`, String.raw`/^-?\d+(\.\d+)?$/`],
  },
  'src/cli/commands/tooling/complete.ts': {
    sees: 'operator',
    patterns: ['/[ ,]+/', '/<[^<>]+>/', '/--[a-z-]+/'],
  },
  'src/cli/kit/trace.ts': {
    sees: 'panel',
    patterns: [
      '/([?&]token=)[^&]+/g',
      '/(pak|pst|pnk|pdt)_[A-Za-z0-9]+_[A-Za-z0-9_-]+/g',
      String.raw`/^(Bearer )(?!p\w\w_…).+$/`,
    ],
  },
  'src/cli/tui/keys/keys.ts': {
    sees: 'operator',
    patterns: [
      String.raw`/^\u001B(?:\[[\d;?<>=]*|O|\[\[)?$/`,
      '/^[[O]/',
      String.raw`/^\u001B(?:\[([\d;]*)([A-Za-z~])|O([A-Za-z])|\[\[([A-E]))/`,
      String.raw`/^\u001B\[<(\d{1,3});\d{1,5};\d{1,5}([Mm])/`,
      String.raw`/^\u001B\[[\d;?<>=]*[\x20-\x7E]/`,
      String.raw`/^(?:ctrl[-+]|\^|C-)(.+)$/i`,
    ],
  },
  'src/cli/tui/keys/press-input.ts': { sees: 'operator', patterns: [String.raw`/\s/`, String.raw`/\s+/`] },
  'src/cli/tui/keys/press.ts': { sees: 'operator', patterns: [String.raw`/\r\n|\r|\n/`, String.raw`/\p{Cc}/gu`] },
  'src/cli/tui/log/ansi.ts': {
    sees: 'game',
    patterns: [String.raw`/[\p{Cc}\u200E\u200F\u2028-\u202E\u2066-\u2069]/u`, '/[;:]/'],
    made: {
      "new RegExp( [ '(?:\\\\u001B\\\\[|\\\\u009B)(?<sgr>[\\\\d;:]*)m', '(?:\\\\u001B\\\\[|\\\\u009B)[\\\\x30-\\\\x3F]*[\\\\x20-\\\\x2F]*[\\\\x40-\\\\x7E]?', `(?:\\\\u001B[\\\\]PX^_]|[\\\\u0090\\\\u0098\\\\u009D-\\\\u009F])${BODY}`, '\\\\u001B[\\\\x20-\\\\x2F]*[\\\\x30-\\\\x7E]?', '[\\\\u0000-\\\\u0008\\\\u000A-\\\\u001A\\\\u001C-\\\\u001F\\\\u007F-\\\\u008F\\\\u0091-\\\\u0097\\\\u0099\\\\u009A\\\\u009C]+', '[\\\\u200E\\\\u200F\\\\u2028-\\\\u202E\\\\u2066-\\\\u2069]+', ].join('|'), 'g', )":
        'constant; searched in patterns.test.ts',
    },
  },
  'src/cli/tui/log/cut.ts': {
    sees: 'game',
    patterns: [
      String.raw`/[^\t\u0020-\u007E]/`,
      String.raw`/[^\u0020-\u007E]/`,
      String.raw`/^(?!\p{Default_Ignorable_Code_Point})[\p{L}\p{N}]$/u`,
      String.raw`/^(?!\p{Regional_Indicator})\p{Emoji_Presentation}$/u`,
      String.raw`/^[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Mark}]+$/u`,
      String.raw`/(?!\uFE0F)\p{Mark}/gu`,
    ],
  },
  'src/cli/tui/log/level.ts': {
    sees: 'game',
    patterns: [
      String.raw`/\b(?:(ERROR|SEVERE|FATAL|CRITICAL)|(WARN(?:ING)?)|(INFO|NOTICE)|(DEBUG|TRACE|FINE(?:ST|R)?))\b/i`,
      String.raw`/^(?:\s|Caused by:|Suppressed:|\.\.\. \d)/`,
      String.raw`/^(?:Exception in thread "|Unhandled exception|Traceback \(most recent call last\)|(?:[\w$]+\.)*[A-Z][\w$]*(?:Exception|Error)(?::|$))/`,
    ],
  },
  'src/cli/tui/log/line-rows.ts': {
    sees: 'game',
    patterns: [String.raw`/^[[(]?(?:\d{2,4}[-./]\d\d[-./]\d{2,4}[T ,]{1,2})?\d{1,2}:\d\d:\d\d/`],
  },
  'src/cli/tui/log/matcher.ts': {
    sees: 'game',
    patterns: [String.raw`/\p{Lu}/u`, String.raw`/\\./g`, String.raw`/[\\^$.|?*+()[\]{}]/`],
    made: { 'RE2JS.compile(pattern, exact ? 0 : RE2JS.CASE_INSENSITIVE)': "RE2 on one line; the operator's own" },
  },
  'src/cli/tui/model/editor.ts': {
    sees: 'operator',
    patterns: [String.raw`/\p{Cc}/gu`, String.raw`/[\p{L}\p{N}_]/u`, String.raw`/^[^\p{L}\p{N}_]*[\p{L}\p{N}_]*/u`],
  },
  'src/cli/tui/session/refusals.ts': { sees: 'panel', patterns: [String.raw`/\.$/`] },
  'src/cli/tui/session/take-out.ts': {
    sees: 'game',
    patterns: [String.raw`/[-:]|\..*/g`, String.raw`/[^\p{L}\p{N}_-]+/gu`],
  },
  'src/daemon/features/accounts/auth/two-factor-rows.ts': {
    sees: 'client',
    patterns: ['/(.{4})(?=.)/g', String.raw`/[\s-]/g`],
  },
  'src/daemon/config/config.ts': {
    sees: 'operator',
    patterns: [
      '/^[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_])?$/i',
      String.raw`/^https?:\/\/[^\s/?#@]+\/?$/i`,
      'z.url({protocol:/^https?$/})',
      '/^https?$/',
      '/^PANEL_(URL|TOKEN|CONTEXT|CONFIG_DIR|OUTPUT|NO_INPUT|DEBUG|NO_COLOR|PAGER|NO_UPDATE_NOTIFIER|NODE|TOTP|STORE_SECRET|BACKUP_PASSPHRASE|LISTENER_UID|INSECURE_HTTP|TEST_.*|MIGRATION_.*|DAEMON__.*|DOCKER__.*|BACKUPS__.*|PULL__.*|SFTP__.*|STARTS__.*|AGENT__DATA_DIR)$/',
      String.raw`/^\[|\]$/g`,
      '/^PANEL_(CREDENTIAL_KEY|SETUP_TOKEN)(_FILE)?$/',
      '/_([a-z])/g',
      String.raw`/^(?:https?:\/\/)?(?:(\[[^\]]+\]|[^:]*):)?(\d{1,5})\/?$/`,
      String.raw`/^\[|\]$/g`,
    ],
  },
  'src/daemon/features/servers/console/frames.ts': {
    sees: 'client',
    patterns: [String.raw`/^([0-9a-z]{1,40})-(\d{1,15})$/`],
  },
  'src/daemon/features/servers/console/typed-command.ts': {
    sees: 'client',
    patterns: [
      '/pass|pwd|secret|token|login|logon|register|credential|auth|apikey|api[-_]key|(?:^|[-_./])(?:pw|pin|otp|key)(?:$|[-_])/i',
      '/^([^=:]{1,100}[=:]).+$/',
      String.raw`/\S+/g`,
    ],
  },
  'src/shared/api/files.ts': { sees: 'client', patterns: ['/^0?[0-7]{3}$/', '/^[0-9a-f]{64}$/'] },
  'src/shared/protocol/files.ts': {
    sees: 'client',
    patterns: ['/^[A-Za-z0-9_-]{43}$/', '/^[0-9a-f]{64}$/', String.raw`/^[\w.-]{1,100}$/`],
  },
  'src/daemon/http/stream-answer.ts': {
    sees: 'client',
    patterns: [String.raw`/[^\w.-]/g`, '/^"([^"]{1,100})"$/', String.raw`/^bytes=(\d{0,16})-(\d{0,16})$/i`],
  },
  'src/daemon/http/connection-limits.ts': {
    sees: 'machine',
    patterns: [String.raw`/^Max open files +(\d+)/m`],
  },
  'src/daemon/db/db.ts': { sees: 'program', patterns: ['/UNIQUE constraint failed: (.+)$/'] },
  'src/daemon/gateway/upgrade-guard.ts': { sees: 'agent', patterns: ['/^[A-Za-z0-9_-]{1,64}$/'] },
  'src/daemon/gateway/ranges.ts': { sees: 'agent', patterns: [String.raw`/^\d{1,20}$/`] },
  'src/daemon/http/answers.ts': { sees: 'client', patterns: [String.raw`/[^\w.-]/g`] },
  'src/daemon/http/callers.ts': { sees: 'client', patterns: [String.raw`/^Bearer +(\S+)$/i`] },
  'src/daemon/http/errors.ts': { sees: 'client', patterns: ['/[_-]/g'] },
  'src/daemon/http/hosts.ts': {
    sees: 'client',
    patterns: [String.raw`/^\[([^\]]*)\](?::\d*)?$/`, String.raw`/:\d*$/`, String.raw`/\.$/`],
  },
  'src/daemon/http/json-bytes.ts': { sees: 'client', patterns: [String.raw`/[\u0000-\u001f"\\\ud800-\udfff]/`] },
  'src/daemon/core/cron.ts': { sees: 'client', patterns: [String.raw`/\s+/`] },
  'src/daemon/core/masking.ts': {
    sees: 'client',
    patterns: [
      '/pass(?:word|wd|phrase)|secret|token|api[_-]?key|(?:private|access|encryption)[_-]?key|credential|authorization|cookie/i',
      '/(?:Id|_id)$/',
      String.raw`/\b(pak|pnk|pst)_[0-9a-z]{1,26}_[\w-]+/g`,
      String.raw`/\b(pak|pnk|pst)_[\w-]{20,}/g`,
      String.raw`/\b(bearer|basic)\s+[\w.~+/=-]{6,}/gi`,
      String.raw`/(?<=[a-z0-9+.-])(:\/\/[^\s/:@]*):[^\s/@]+@/gi`,
      '/-----BEGIN [A-Z ]{0,60}-----/g',
      '/-----END [A-Z ]{0,60}-----/g',
      String.raw`/[\w.-]+/g`,
      String.raw`/\beyJ[\w-]/`,
      String.raw`/[\w-]+/g`,
      String.raw`/(["']?\s*[:=]\s*)(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|[^\s,;&}]+)/y`,
    ],
  },
  'src/daemon/db/migrations.ts': { sees: 'program', patterns: ['/[:.]/g'] },
  'src/daemon/http/rate-limits.ts': {
    sees: 'program',
    patterns: [String.raw`/^\/api\/servers\/:serverId\/files(\/|$)/`, String.raw`/^\/api\/agent\/bulk(\/|$)/`],
  },
  'src/daemon/http/request-ids.ts': { sees: 'client', patterns: ['/^[A-Za-z0-9._-]{1,64}$/'] },
  'src/daemon/core/secrets.ts': {
    sees: 'client',
    patterns: ['/^(pak|pnk|pst)_([0-9a-z]{26})_([A-Za-z0-9_-]{43})$/', '/^[0-9a-f]{64}$/i'],
  },
  'src/daemon/core/settings.ts': { sees: 'client', patterns: ['z.cidrv4()', 'z.cidrv6()'] },
  'src/daemon/db/sqlite/lease.ts': { sees: 'program', patterns: [String.raw`/^\s*select\b/i`] },
  'src/daemon/db/sqlite/named-tables.ts': {
    sees: 'program',
    patterns: [
      String.raw`/\b(?:random|randomblob|date|time|datetime|julianday|unixepoch|strftime|timediff|changes|total_changes|last_insert_rowid)\s*\(|\bcurrent_(?:date|time|timestamp)\b|\b(?:sqlite_|pragma_|dbstat)/i`,
      String.raw`/^\s*(?:select|with|explain|values)\b/i`,
      String.raw`/^\s*(?:begin|commit|end|rollback|savepoint|release|pragma|vacuum\s+into)\b/i`,
      String.raw`/\b(?:(insert)\s+(?:or\s+(\w+)\s+)?into|(replace)\s+into|(update)(?:\s+or\s+(\w+))?|(delete)\s+from)\s*"?(\w+)"?/gi`,
      '/^(?:no action|restrict)$/',
      String.raw`/\w+/g`,
      String.raw`/^\w+$/`,
      String.raw`/\bupdate\b/i`,
      String.raw`/\*|\b(?:natural|rowid|oid|_rowid_)\b/i`,
      String.raw`/\bcount\s*\(\s*\*\s*\)/gi`,
      String.raw`/^\s*insert\b/i`,
    ],
  },
  'src/daemon/db/sqlite/narrow-update.ts': {
    sees: 'program',
    patterns: [
      '/[\'"`;[\\]]|--|\\/\\*|\\?\\d|[:@$]\\w|[^\\s -~]|distinct/',
      String.raw`/"(\w+)"/g`,
      String.raw`/^update (\w+) set /`,
      String.raw`/^ ?(\w+) = /`,
      '/ (from|where|returning|order by|limit) /g',
      '/ or /',
      String.raw`/^json_each\(\?\) as (\w+)$/`,
      String.raw`/\s+/g`,
    ],
  },
  'src/daemon/db/sqlite/script-statements.ts': {
    sees: 'program',
    patterns: [String.raw`/'[^']*\?[^']*'/`, String.raw`/\?/g`],
  },
  'src/daemon/db/paging.ts': { sees: 'program', patterns: [String.raw`/\bselect\b/`] },
  'src/daemon/db/sqlite/dialect.ts': {
    sees: 'program',
    patterns: [String.raw`/^\s*(select|with|explain|pragma)\b|\breturning\b/i`],
  },
  'src/daemon/core/system-error-entry.ts': {
    sees: 'client',
    patterns: [
      String.raw`/^\s+at /`,
      String.raw`/file:\/\/\/|\//`,
      String.raw`/\b[a-z]{2,5}_[0-9a-z]{26}\b/g`,
      String.raw`/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi`,
      '/(["\'`]).*?\\1/g',
      String.raw`/\b0x[0-9a-f]+\b|\d+/gi`,
    ],
  },
  'src/daemon/db/text-search.ts': { sees: 'client', patterns: [String.raw`/[\\%_]/g`, String.raw`/[\\%_]/g`] },
  'src/daemon/database-files.ts': { sees: 'program', patterns: ['/[:.]/g'] },
  'src/daemon/features/servers/databases/dialect.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^[\w%.:/+=$-]*$/`, String.raw`/^(\d+)(?:\.(\d+))?/`],
  },
  'src/daemon/features/servers/databases/host-connection.ts': { sees: 'remote host', patterns: ["/'([^']{20,})'/g"] },
  'src/daemon/features/servers/databases/host-failure.ts': {
    sees: 'remote host',
    patterns: [
      String.raw`/^(ENOTFOUND|EAI_\w+)$/`,
      '/^ECONNREFUSED$/',
      '/^(EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL)$/',
      '/^(ETIMEDOUT|PROTOCOL_SEQUENCE_TIMEOUT|57014)$/',
      '/^(?:HANDSHAKE_NO_SSL_SUPPORT$|HANDSHAKE_SSL_ERROR$|ERR_O?SSL|ERR_TLS|EPROTO$|UNABLE_TO_)|CERT/',
      String.raw`/^(1044|1045|1129|1130|1142|1227|1251|1410|1698|3159|28\w{3}|42501|AUTH_SWITCH_PLUGIN_ERROR)$/`,
      '/^(1007|42P04)$/',
      String.raw`/^(1053|1077|1079|1927|57P\w\w|08\w{3}|58\w{3}|XX\w{3})$/`,
      String.raw`/^(\d{4}|[0-9A-Z]{5})$/`,
      '/does not support (SSL|secure)|SSL connection|certificate|altnames|wrong version number/i',
      '/timeout|timed out/i',
      '/does not support/i',
      '/self.signed|unable to (verify|get)/i',
      '/altnames|does not match/i',
      '/expired/i',
      String.raw`/\s+/g`,
    ],
  },
  'src/daemon/features/servers/databases/host-operations.ts': {
    sees: 'client',
    patterns: [String.raw`/(?<=-----END CERTIFICATE-----)\s*/`],
  },
  'src/daemon/features/servers/databases/mysql-dialect.ts': {
    sees: 'remote host',
    patterns: ['/mariadb/i', String.raw`/[\\_%]/g`],
  },
  'src/daemon/features/servers/databases/secrets.ts': {
    sees: 'client',
    patterns: ['/^[A-Za-z]/', '/[A-Z]/', '/[a-z]/', String.raw`/\d/`, '/[-_]/'],
  },
  'src/daemon/features/signals/events/follow.ts': {
    sees: 'client',
    patterns: [String.raw`/^([0-9a-z]+)-(\d{1,15})$/`],
  },
  'src/daemon/config/fixed-settings.ts': { sees: 'operator', patterns: [String.raw`/^-?\d+(\.\d+)?$/`] },
  'src/daemon/features/signals/mail/mail-failure.ts': {
    sees: 'remote host',
    patterns: [
      '/ENOTFOUND|EAI_AGAIN/',
      '/ECONNREFUSED/',
      '/ERR_SSL|ERR_TLS|SSL routines|CERT|SELF_SIGNED|UNABLE_TO_|certificate|wrong version number/i',
      '/wrong version number|packet length too long/i',
      '/SELF_SIGNED|self.signed|UNABLE_TO_(VERIFY|GET)|unable to (verify|get)/i',
      '/ALTNAME|altnames/i',
      '/EXPIRED|has expired/i',
      '/STARTTLS/i',
      String.raw`/\s+/g`,
    ],
  },
  'src/daemon/features/signals/mail/smtp-mailer.ts': { sees: 'remote host', patterns: [String.raw`/\p{Cc}+/gu`] },
  'src/daemon/features/fleet/nodes/addresses.ts': {
    sees: 'client',
    patterns: [String.raw`/^(\d{1,5})(?:-(\d{1,5}))?$/`, String.raw`/[\s,]+/`],
  },
  'src/daemon/features/fleet/nodes/allocation-rows.ts': { sees: 'client', patterns: [String.raw`/^\d{1,5}$/`] },
  'src/daemon/features/fleet/nodes/ip-numbers.ts': { sees: 'client', patterns: [String.raw`/^\d{1,3}$/`] },
  'src/daemon/features/operations/overview/activity.ts': { sees: 'client', patterns: ['/[._]/g'] },
  'src/daemon/features/accounts/passkeys/own-passkeys.ts': { sees: 'remote host', patterns: [String.raw`/\s+/g`] },
  'src/daemon/features/accounts/passkeys/relying-party.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^\[|\]$/g`, String.raw`/^\[|\]$/g`],
  },
  'src/daemon/features/plugins/engine-range.ts': {
    sees: 'plugin',
    patterns: [
      String.raw`/^(>=|<=|>|<|=|\^|~)?(\d+)\.(\d+)\.(\d+)$/`,
      String.raw`/^(\d+)\.(\d+)\.(\d+)/`,
      String.raw`/\s+/`,
    ],
  },
  'src/daemon/features/plugins/manifest.ts': {
    sees: 'plugin',
    patterns: [
      String.raw`/^[A-Za-z_$][\w$]{0,63}$/`,
      String.raw`/^[^\p{Cc}]*$/u`,
      String.raw`/^(\/(:[a-z][A-Za-z0-9]{0,31}|[a-z0-9][a-z0-9._-]{0,63}))+$/`,
      String.raw`/^\d+\.\d+\.\d+([-+][\w.+-]{1,50})?$/`,
      String.raw`/^[A-Za-z0-9_-][\w.-]*(\/[A-Za-z0-9_-][\w.-]*)*\.(js|mjs|cjs)$/`,
      '/^[a-z0-9][a-z0-9-]{0,63}$/',
      String.raw`/^(https:\/\/|\/)\S+$/`,
      String.raw`/:\w+/g`,
    ],
  },
  'src/daemon/features/plugins/panel-api.ts': {
    sees: 'plugin',
    patterns: [String.raw`/^\/api\/[^?#\s]*$/`, String.raw`/:\w+/g`],
    made: {
      "new RegExp(`^${way.path.replace(/:\\w+/g, '[^/]+')}$`)":
        'made from paths of the contract: each part ends at a slash',
    },
  },
  'src/daemon/features/plugins/plugin-run.ts': {
    sees: 'plugin',
    patterns: ['/heap out of memory|allocation failed/i', String.raw`/^\w*Error\b|^Error:/`],
  },
  'src/daemon/features/plugins/processes.ts': {
    sees: 'machine',
    patterns: [String.raw`/^\d+$/`, String.raw`/^Uid:\t(\d+)/m`, String.raw`/^State:\t[ZX]/m`],
  },
  'src/daemon/features/plugins/storage.ts': { sees: 'plugin', patterns: [String.raw`/^[^\p{Cc}]+$/u`] },
  'src/daemon/features/servers/servers/rows.ts': { sees: 'client', patterns: [String.raw`/[\\%_]/g`] },
  'src/daemon/features/accounts/sso/claims.ts': { sees: 'remote host', patterns: [String.raw`/\p{Cc}/gu`] },
  'src/daemon/features/accounts/sso/provider-clients.ts': {
    sees: 'remote host',
    patterns: [String.raw`/\/\.well-known\/openid-configuration\/?$/`, String.raw`/\/$/`],
  },
  'src/daemon/features/accounts/sso/provider-failure.ts': {
    sees: 'remote host',
    patterns: [
      '/ENOTFOUND|EAI_AGAIN/',
      '/ECONNREFUSED/',
      String.raw`/OAUTH_TIMEOUT|ETIMEDOUT|UND_ERR_\w*TIMEOUT/`,
      '/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL/',
      '/ECONNRESET|UND_ERR_SOCKET|EHOSTUNREACH|ENETUNREACH/',
      '/OAUTH_RESPONSE_IS_NOT_JSON|OAUTH_PARSE_ERROR/',
      '/OAUTH_RESPONSE_IS_NOT_CONFORM/',
      '/OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED/',
      String.raw`/\s+/g`,
      '/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|UND_ERR|OAUTH_TIMEOUT|CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|OAUTH_RESPONSE_IS_NOT_JSON|OAUTH_RESPONSE_IS_NOT_CONFORM|OAUTH_PARSE_ERROR/',
      String.raw`/\s+/g`,
      '/[A-Z_]+/g',
      '/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL/',
    ],
  },
  'src/daemon/features/accounts/sso/usernames.ts': {
    sees: 'remote host',
    patterns: [String.raw`/\p{M}/gu`, '/[^A-Za-z0-9_-]+/g', '/^-+|-+$/g'],
  },
  'src/shared/templates/bounded-pattern.ts': {
    sees: 'template',
    patterns: [],
    made: {
      'RE2JS.compile(pattern, flags)': 'RE2, with bounded steps and a budget for each request: template-author.test.ts',
    },
  },
  'src/shared/templates/rule-checks.ts': {
    sees: 'template',
    patterns: [
      String.raw`/^[+-]?\d{1,18}$/`,
      '/^(?:0|1|true|false)$/',
      String.raw`/^[\p{L}\p{M}]+$/u`,
      String.raw`/^[\p{L}\p{M}\p{N}]+$/u`,
      String.raw`/^[\p{L}\p{M}\p{N}_-]+$/u`,
      'z.email()',
      '/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i',
      String.raw`/^\d+$/`,
      String.raw`/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?$/i`,
      String.raw`/^[a-z][a-z0-9+.-]*:\/\//i`,
    ],
  },
  'src/daemon/features/catalog/templates/catalog.ts': {
    sees: 'operator',
    patterns: [String.raw`/^#@file ([a-z0-9-]+\.[a-z]+)$/`],
  },
  'src/daemon/features/operations/updates/version-order.ts': {
    sees: 'remote host',
    patterns: [
      String.raw`/^v?(\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[0-9A-Za-z.-]{1,60})?)(?:\+[0-9A-Za-z.-]{1,60})?$/`,
      String.raw`/^\d+$/`,
      String.raw`/^\d+$/`,
    ],
  },
  'src/daemon/features/accounts/users/invites.ts': { sees: 'client', patterns: ['/[^A-Za-z0-9]/g'] },
  'src/daemon/features/signals/webhooks/sender.ts': {
    sees: 'remote host',
    patterns: [String.raw`/^\d{1,9}$/`, String.raw`/\s+/g`],
  },
  'src/daemon/features/signals/webhooks/target-url.ts': {
    sees: 'client',
    patterns: [
      String.raw`/^\[|\]$/g`,
      String.raw`/(^|\.)discord(app)?\.com$/`,
      String.raw`/^(?=.*\d)(?=.*[A-Za-z])[^.]{20,}$/`,
    ],
  },
  'src/shared/kernel/agent-text.ts': {
    sees: 'agent',
    patterns: [
      String.raw`/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?)/g`,
      String.raw`/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/gu`,
      String.raw`/^\P{Cc}{0,200}$/u`,
    ],
  },
  'src/shared/api/access.ts': { sees: 'client', patterns: ['/^[A-Za-z0-9_-]{1,64}$/', 'z.iso.datetime()'] },
  'src/shared/api/alert-rules.ts': { sees: 'client', patterns: ['z.email()'] },
  'src/shared/api/api-keys.ts': { sees: 'client', patterns: ['z.iso.datetime()', 'z.iso.datetime()'] },
  'src/shared/api/assignments.ts': { sees: 'client', patterns: ['/^[A-Za-z0-9_-]{1,64}$/', 'z.iso.datetime()'] },
  'src/shared/api/audit-log.ts': { sees: 'client', patterns: ['/^[0-9a-f]{64}$/'] },
  'src/shared/api/auth.ts': {
    sees: 'client',
    patterns: [
      'z.email()',
      String.raw`/\p{Ll}/u`,
      String.raw`/\p{Lu}/u`,
      String.raw`/\d/`,
      String.raw`/[^\p{L}\d]/u`,
      '/^[A-Za-z0-9_-]{3,32}$/',
      '/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/',
    ],
  },
  'src/shared/api/console.ts': {
    sees: 'client',
    patterns: [String.raw`/^[0-9a-z]{1,40}-\d{1,15}$/`, String.raw`/^[^\r\n\u0000]*$/`, 'z.iso.datetime()'],
  },
  'src/shared/api/databases.ts': {
    sees: 'client',
    patterns: [
      'z.ipv4()',
      'z.ipv6()',
      'z.cidrv4()',
      String.raw`/^(?:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){1,3}%$/`,
      '/^[a-z][a-z0-9_]{2,31}$/',
    ],
  },
  'src/shared/api/ip-pools.ts': {
    sees: 'client',
    patterns: [
      String.raw`/^\d{16,}$/`,
      'z.ipv4()',
      'z.ipv6()',
      'z.cidrv4()',
      'z.cidrv6()',
      '/^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/',
    ],
  },
  'src/shared/api/nodes.ts': { sees: 'client', patterns: ['z.ipv4()', 'z.ipv6()'] },
  'src/shared/api/passkeys.ts': { sees: 'client', patterns: ['/^[A-Za-z0-9_-]+$/'] },
  'src/shared/api/plugins.ts': { sees: 'client', patterns: ['/^[a-z0-9][a-z0-9-]{0,63}$/'] },
  'src/shared/api/providers.ts': {
    sees: 'client',
    patterns: [
      String.raw`/^(\*|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)$/`,
      String.raw`/^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/`,
    ],
  },
  'src/shared/api/roles.ts': { sees: 'client', patterns: [String.raw`/^(\*|[a-z]+\.[a-z_]+(:[\w*-]{1,64})?)$/`] },
  'src/shared/api/template-catalog.ts': { sees: 'client', patterns: ['/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/'] },
  'src/shared/api/server-allocations.ts': { sees: 'client', patterns: ['/^[1-9][0-9]{0,4}$/', 'z.ipv4()', 'z.ipv6()'] },
  'src/shared/api/servers.ts': {
    sees: 'client',
    patterns: [String.raw`/^(?:(?![/\\<>\ufffd])[\p{L}\p{M}\p{N}\p{P}\p{S} ])+$/u`, 'z.ipv4()', 'z.ipv6()'],
  },
  'src/shared/api/settings.ts': { sees: 'client', patterns: [String.raw`/^[\x21-\x7e]+$/`] },
  'src/shared/api/sso.ts': {
    sees: 'client',
    patterns: [
      '/^[A-Za-z0-9._~-]{43,128}$/',
      '/^[A-Za-z0-9_-]{16,128}$/',
      '/^[A-Za-z0-9_-]{43}$/',
      String.raw`/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/`,
    ],
  },
  'src/shared/api/two-factor.ts': { sees: 'client', patterns: [String.raw`/^\d{6}$/`] },
  'src/shared/api/users.ts': { sees: 'client', patterns: ['z.iso.datetime()'] },
  'src/shared/api/webhooks.ts': { sees: 'client', patterns: ['z.iso.datetime()'] },
  'src/shared/client.ts': { sees: 'program', patterns: [String.raw`/:(\w+)/g`] },
  'src/shared/kernel/ids.ts': {
    sees: 'client',
    patterns: ['/^[A-Za-z0-9_-]{1,64}$/', '/^[a-z0-9][a-z0-9_-]{0,63}$/', '/^[0-7][0-9a-hjkmnp-tv-z]{25}$/'],
  },
  'src/shared/openapi.ts': { sees: 'program', patterns: [String.raw`/:(\w+)/g`] },
  'src/shared/kernel/ports.ts': { sees: 'template', patterns: ['/^[a-z][a-z0-9_-]{0,31}$/'] },
  'src/shared/kernel/pattern-steps.ts': {
    sees: 'template',
    patterns: [
      String.raw`/\{(\d{1,6})(?:,(\d{0,6}))?\}/y`,
      String.raw`/\(\?(?:P?<\w{1,60}>|[a-zA-Z-]{0,10}:)/y`,
      String.raw`/\\[pPx]\{[^}]{0,40}\}/y`,
    ],
  },
  'src/shared/kernel/permissions.ts': { sees: 'client', patterns: [String.raw`/^([A-Za-z0-9_-]{1,64}|\*)$/`] },
  'src/shared/platform/listener-table.ts': {
    sees: 'machine',
    patterns: [String.raw`/\s+/`, String.raw`/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i`],
  },
  'src/shared/platform/listener.ts': {
    sees: 'operator',
    patterns: [
      String.raw`/^(?:localhost|\[::1?\]|\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\]|127\.\d+\.\d+\.\d+|0\.0\.0\.0)$/`,
      String.raw`/^[\w.-]{1,64}$/`,
      String.raw`/^\[|\]$/g`,
      String.raw`/^(?:::ffff:)?127\.|^::1$/i`,
      String.raw`/\s+/`,
    ],
  },
  'src/shared/platform/process-identity.ts': { sees: 'machine', patterns: ['/^[0-9a-f]{32}$/'] },
  'src/shared/protocol/server-spec.ts': { sees: 'client', patterns: ['/^[A-Za-z_][A-Za-z0-9_]{0,190}$/'] },
  'src/shared/kernel/setting-values.ts': {
    sees: 'client',
    patterns: [
      '/^[A-Za-z][A-Za-z0-9_+/-]*$/',
      '/^#[0-9a-f]{6}$/i',
      String.raw`/^\/(?!\/)[^\s\\]*$/`,
      String.raw`/^https?:\/\/[^\s\\]+$/i`,
      '/^[A-Za-z0-9][A-Za-z0-9._-]*$/',
      '/^[0-9A-Fa-f:.]+$/',
      '/[_-]$/',
      String.raw`/\p{Cc}/u`,
      'z.email()',
      '/["<>]/',
      String.raw`/^https?:\/\//i`,
      String.raw`/^\[|\]$/g`,
      String.raw`/^127(?:\.\d{1,3}){3}$/`,
    ],
  },
  'src/shared/kernel/startup-line.ts': {
    sees: 'template',
    patterns: [
      String.raw`/\{\{[^{}]+\}\}/`,
      String.raw`/\{\{([^{}]+)\}\}/y`,
      String.raw`/<<(-?)[ \t]*(?:'([A-Za-z0-9_.-]+)'|"([A-Za-z0-9_.-]+)"|\\([A-Za-z0-9_.-]+)|([A-Za-z0-9_.-]+))(?=[\s;&|<>()]|$)/y`,
      String.raw`/case(?=\s)/y`,
      String.raw`/^([^|]*)\|\s*(\w{1,20})\s*$/`,
      String.raw`/[*?]|\[[^\s[\]]/y`,
      String.raw`/(?:\s-[a-z]{0,3}c|\b(?:eval|trap))[ \t]{1,9}$/`,
      String.raw`/^[\s;&|()]?$/`,
      String.raw`/^\t+/`,
    ],
  },
  'src/shared/kernel/placeholders.ts': {
    sees: 'template',
    patterns: [String.raw`/^(?:server\.build\.env|server\.environment|env)\./`, String.raw`/\{\{([^{}]{1,200})\}\}/g`],
  },
  'src/shared/protocol/config-files.ts': { sees: 'template', patterns: [String.raw`/[\p{Cc}\\]/u`] },
  'src/shared/templates/document.ts': { sees: 'template', patterns: [String.raw`/^\s*[{[]/`] },
  'src/shared/templates/egg-config-files.ts': {
    sees: 'template',
    patterns: [String.raw`/^(?:\.?\/)+/`, String.raw`/\{\{([^{}]{1,200})\}\}/g`],
  },
  'src/shared/templates/egg-format.ts': {
    sees: 'template',
    patterns: [
      String.raw`/^\w+$/`,
      '/^(?:PTDL|PLCN)_/i',
      String.raw`/^\s*(?:not_)?regex:(.)/s`,
      String.raw`/[a-zA-Z]{0,8}(?=\||$)/y`,
    ],
  },
  'src/shared/templates/egg-import.ts': {
    sees: 'template',
    patterns: [
      String.raw`/^(?:SERVER_(?:IP|PORT|MEMORY)|P_SERVER_\w+|STARTUP|MNT_SERVER|PANEL_\w+)$/`,
      String.raw`/^(?:PATH|IFS|ENV|BASH_ENV|LD_\w+|NODE_OPTIONS|PROMPT_COMMAND|PYTHONSTARTUP|SHELL)$/`,
      String.raw`/\r\n?/g`,
      String.raw`/^(?:\.?\/)+/`,
      String.raw`/\r\n?/g`,
    ],
  },
  'src/shared/templates/egg-startup.ts': {
    sees: 'template',
    patterns: [
      String.raw`/\r\n?/g`,
      String.raw`/\{\{([^{}|]{1,200})\|\s*split\s*\}\}/g`,
      String.raw`/\beval\s|\b(?:ba|da)?sh\s+-[a-z]{0,3}c\s/`,
      String.raw`/\[\[\s|\s==\s|<<<|[<>]\(|&>|\w\+?=\(|\$\{!|\$\{\w+(?:\/|\^|,|:\d|:\s-|\[)|\$\{#?\w+\[|\bfunction\s|\bsource\s|\bdisown\b|\bshopt\s|\bdeclare\s/`,
    ],
  },
  'src/shared/kernel/terminal-text.ts': {
    sees: 'game',
    patterns: [
      String.raw`/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|(?<![\ud800-\udbff])[\udc80-\udcff]/g`,
    ],
    made: {
      "new RegExp(String.raw`\\r\\n|\\u001b\\[[\\d;:]{0,64}m|${UNSAFE.source}`, 'g')":
        'constant; searched in patterns.test.ts',
    },
  },
  'src/shared/kernel/theme-metadata.ts': {
    sees: 'client',
    patterns: ['/^(?:__proto__|prototype|constructor)$|password|secret|token|api_?key|credential|oidc/i'],
  },
  'src/shared/kernel/time.ts': {
    sees: 'client',
    patterns: ['z.iso.datetime({precision:3})', 'z.iso.datetime({offset:true})', 'z.iso.date()'],
  },
  'src/cli/kit/output/plain-jq.ts': {
    sees: 'operator',
    patterns: [
      '/[A-Za-z_][A-Za-z0-9_]*/y',
      String.raw`/"[ !#-[\]-~]*"/y`,
      String.raw`/[ !#-[\]-~]*/y`,
      String.raw`/-?\d{1,9}/y`,
      '/==|!=|<=|>=|<|>/y',
      String.raw`/true\b|false\b|null\b|-?(?:0|[1-9]\d{0,14})(?![\d.eE])/y`,
    ],
  },
  'src/cli/kit/output/plain-values.ts': {
    sees: 'game',
    patterns: [String.raw`/[\\\t]/`, String.raw`/^[\t -~\u00a0-\ud7ff\ue000-\ufffd]*$/`],
  },
  'src/cli/kit/profile/plain-yaml.ts': {
    sees: 'operator',
    patterns: [
      String.raw`/^( *)([A-Za-z_][\w.@-]*):(?: (\S+))?$/`,
      '/^(?:null|true|false|yes|no|on|off|y|n)$/i',
      String.raw`/^(?:0|[1-9]\d{0,8})$/`,
      String.raw`/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/`,
      String.raw`/^[A-Za-z/][\w./:@+=-]*$/`,
    ],
  },
  'src/shared/outline/shape.ts': {
    sees: 'panel',
    patterns: [],
    made: { 'new RegExp(like[0], like[1])': 'those of the contract, which are listed here with it' },
  },
  'src/shared/kernel/clock.ts': {
    sees: 'client',
    patterns: [
      String.raw`/^\d+(\.\d+)?$/`,
      String.raw`/^(\d{1,15}(\.\d{1,15})?(ms|s|m|h|d))+$/`,
      String.raw`/(\d{1,15}(?:\.\d{1,15})?)(ms|s|m|h|d)/g`,
    ],
  },
}
