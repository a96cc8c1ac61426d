import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/** Certificate files of one authority, of servers for `temporal.test` and this machine, and of a client. */
export interface Certificates {
  ca: string
  cert: string
  key: string
  localCert: string
  localKey: string
  clientCert: string
  clientKey: string
}

const DAYS = '2'

/** Creates the certificates in a folder with OpenSSL; returns undefined if OpenSSL is missing. */
export function makeCertificates(folder: string): Certificates | undefined {
  const file = (name: string) => join(folder, `${name}.pem`)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' })
  const newKey = (name: string) => [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    file(name),
  ]
  try {
    openssl('version')
  } catch {
    return undefined
  }
  openssl(
    'req',
    '-x509',
    ...newKey('ca-key'),
    '-out',
    file('ca'),
    '-days',
    DAYS,
    '-subj',
    '/CN=test authority',
  )
  const signed = (name: string, ...more: string[]) => {
    const own = ['-x509', ...newKey(`${name}-key`), '-out', file(name), '-days', DAYS, '-subj', `/CN=${name}`]
    const by = ['-CA', file('ca'), '-CAkey', file('ca-key'), '-addext', 'basicConstraints=critical,CA:false']
    openssl('req', ...own, ...by, ...more)
  }
  signed('server', '-addext', 'subjectAltName=DNS:temporal.test')
  signed('local', '-addext', 'subjectAltName=IP:127.0.0.1')
  signed('client')
  return {
    ca: file('ca'),
    cert: file('server'),
    key: file('server-key'),
    localCert: file('local'),
    localKey: file('local-key'),
    clientCert: file('client'),
    clientKey: file('client-key'),
  }
}
