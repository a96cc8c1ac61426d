import { createHash, X509Certificate } from 'node:crypto'
import { generate } from 'selfsigned'

const YEAR_MS = 365 * 86_400_000

/** A key and its certificate. Peers pin the key's digest and ignore the certificate's names and dates. */
export interface EdgeCertificate {
  cert: string
  key: string
  spkiSha256: string
}

/** Creates a P-256 key for the lifetime of the process. */
export async function makeCertificate(): Promise<EdgeCertificate> {
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'hearth edge' }], {
    keyType: 'ec',
    curve: 'P-256',
    notAfterDate: new Date(Date.now() + 10 * YEAR_MS),
  })
  return { cert, key, spkiSha256: spkiSha256Of(new X509Certificate(cert)) }
}

/** Returns the SHA-256 of a certificate's public key (an RFC 7469 pin), in hex. */
export const spkiSha256Of = ({ publicKey }: X509Certificate): string =>
  createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')
