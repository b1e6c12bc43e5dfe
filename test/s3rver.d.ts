declare module 's3rver' {
  /** The parts that the tests use of a server that speaks S3 and keeps objects in a folder. */
  class S3rver {
    constructor(options: {
      address?: string
      port?: number
      silent?: boolean
      directory: string
      configureBuckets?: readonly { readonly name: string }[]
    })
    run(): Promise<{ address: string; port: number }>
    close(): Promise<void>
  }

  // biome-ignore lint/style/noDefaultExport: it is the package's own
  export { S3rver as default }
}
