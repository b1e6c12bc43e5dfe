import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Json, Stamps } from './columns.ts'

/** A network of a node whose addresses are given to servers, each to one. */
interface IpPoolTable extends Stamps {
  id: string
  nodeId: string
  networkName: string
  cidr: string
  gateway: string | null
  startIp: string | null
  endIp: string | null
  /** Addresses, as an array of texts. */
  reserved: Json
  family: 4 | 6
  /** First and last address of the network, and of what is given out of it: numbers of 32 hexadecimal digits. */
  networkFirst: string
  networkLast: string
  rangeFirst: string
  rangeLast: string
}

/** An address of a pool that a server has. */
interface IpPoolAddressTable {
  id: string
  poolId: string
  serverId: string
  ip: string
  /** The address as the bounds of its pool are written. */
  position: string
  createdAt: IsoTime
}

/** IP pools and what servers have of them. */
export interface IpPoolsTables {
  ipPool: IpPoolTable
  ipPoolAddress: IpPoolAddressTable
}
