import { createHash, X509Certificate } from 'node:crypto'
import { generate } from 'selfsigned'

const YEAR_MS = 365 * 86_400_000

/** A key and the certificate that shows it. Peers know the key by its digest alone, so names and dates in it say nothing. */
export interface EdgeCertificate {
  cert: string
  key: string
  spkiSha256: string
}

/** Makes a P-256 key that lives as long as the process. */
export async function makeCertificate(): Promise<EdgeCertificate> {
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'hearth edge' }], {
    keyType: 'ec',
    curve: 'P-256',
    notAfterDate: new Date(Date.now() + 10 * YEAR_MS),
  })
  return { cert, key, spkiSha256: spkiSha256Of(new X509Certificate(cert)) }
}

/** Returns the SHA-256 of a certificate's public key, in hex, as RFC 7469 pins it. */
export const spkiSha256Of = ({ publicKey }: X509Certificate): string =>
  createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')
