import type { NewTemplate } from '../../../../shared/api/template-fields.ts'

/** What a template says of how a server is run: all but where it stands itself. */
export type Definition = Omit<NewTemplate, 'name' | 'nestId'>

/**
 * What the fields of a template are that was stored before they came: the defaults of the contract, written down here because to make its
 * schema takes a start's first read of a server 10 ms. `test/daemon/servers/stored-templates.test.ts` compares the two.
 */
export const LATER_FIELDS: Definition = {
  description: null,
  author: 'unknown',
  version: '1.0.0',
  runtimes: ['process'],
  image: '',
  images: [],
  defaultImage: null,
  startup: '-',
  shell: 'sh',
  startupCommands: [],
  stopCommand: '',
  sendSignalTo: 'SIGTERM',
  console: { kind: 'stdin' },
  stopTimeoutSeconds: 30,
  startupDetection: { done: [], stripAnsi: true },
  listens: null,
  ports: [],
  bindsAll: false,
  variables: [],
  configFiles: [],
  mounts: [],
  fileDenylist: [],
  logFiles: [],
  query: null,
  logLevels: [],
  tags: [],
  installScript: null,
  installEntrypoint: 'sh',
  installImage: null,
  installTimeoutSeconds: 3600,
  allowUserNamespaces: false,
  supportedPorts: [],
  allocatedMemoryMb: 1024,
  allocatedCpuCores: 1,
  allocatedDiskMb: 2048,
  features: {},
  srvService: null,
  srvProtocol: 'tcp',
  eula: null,
}
