import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls'
import { kindProblem } from '../../shared/kernel/file-problem.ts'
import { CliFailure } from '../kit/failure.ts'

/** Trusts the authorities that Node ships, and those in a file. */
export function trusting(path: string): SecureContext {
  let pem: string
  try {
    const problem = kindProblem(path, statSync(path))
    if (problem !== undefined) throw new Error(problem)
    pem = readFileSync(path, 'utf8')
    new X509Certificate(pem) // Node itself would pass over what is none, and then refuse the panel
  } catch (error) {
    throw new CliFailure('FILE_UNREADABLE', `${path} cannot be read as certificates in PEM`, { cause: error })
  }
  return createSecureContext({ ca: [...rootCertificates, pem] })
}
