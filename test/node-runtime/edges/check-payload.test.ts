import assert from 'node:assert/strict'
import { type AgreedTerms, checkPayload } from '../../../node-runtime/edges/check-payload.ts'
import { PayloadStore } from '../../../node-runtime/edges/payload-store.ts'
import { sha256Of, storeBytes } from '../../support/builders/cohorts/edges.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const FINGERPRINT = 'a'.repeat(64)
const VECTORS: AgreedTerms = {
  encoding: 'safetensors',
  fingerprint: FINGERPRINT,
  space: { kind: 'embedding', dtype: 'f32', dimensions: 3 },
}
const failsWith = (failure: string) => (err: unknown) => {
  assert.equal((err as { failure?: string }).failure, failure, String(err))
  return true
}

function vectorsFile(rows: number, { fingerprint = FINGERPRINT, dataBytes = rows * 12 } = {}): Buffer {
  const header = Buffer.from(
    JSON.stringify({
      __metadata__: { space_fingerprint: fingerprint },
      vectors: { dtype: 'F32', shape: [rows, 3], data_offsets: [0, rows * 12] },
    }),
  )
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  return Buffer.concat([length, header, Buffer.alloc(dataBytes)])
}

describe('a payload before it reaches a model server', () => {
  const folder = temporaryFolder()
  let store: PayloadStore
  before(async () => (store = await PayloadStore.open({ dir: folder.path, limitMb: 10 })))
  after(async () => {
    await store[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })
  const check = async (bytes: Buffer, agreed: AgreedTerms, stated: object = {}) => {
    using payload = await storeBytes(store, bytes)
    const honest = { sizeBytes: bytes.length, sha256: sha256Of(bytes), fingerprint: FINGERPRINT }
    await checkPayload(payload, { ...honest, ...stated }, agreed)
  }

  it('is accepted when it matches the agreement', async () => {
    await check(vectorsFile(5), VECTORS)
  })

  it('is rejected when it does not match what its producer stated', async () => {
    const bytes = vectorsFile(5)

    await assert.rejects(check(bytes, VECTORS, { sizeBytes: 1 }), failsWith('size_mismatch'))
    await assert.rejects(check(bytes, VECTORS, { sha256: 'b'.repeat(64) }), failsWith('digest_mismatch'))
    await assert.rejects(check(bytes, VECTORS, { fingerprint: 'b'.repeat(64) }), failsWith('space_mismatch'))
  })

  it('is rejected when the file has a different space, is truncated, or is not safetensors', async () => {
    const foreign = vectorsFile(5, { fingerprint: 'b'.repeat(64) })

    await assert.rejects(check(foreign, VECTORS), failsWith('space_mismatch'))
    await assert.rejects(check(vectorsFile(5, { dataBytes: 59 }), VECTORS), failsWith('shape_mismatch'))
    await assert.rejects(check(Buffer.from('\x80\x04pickle'), VECTORS), failsWith('shape_mismatch'))
    await assert.rejects(check(Buffer.alloc(3), VECTORS), failsWith('shape_mismatch'))
  })

  it("is checked only against the producer's statement when it is a llama.cpp state", async () => {
    const state: AgreedTerms = { ...VECTORS, encoding: 'llama-state', space: { kind: 'kv_cache' } }
    const bytes = Buffer.from('anything')

    await check(bytes, state)
    await assert.rejects(check(bytes, state, { sha256: 'b'.repeat(64) }), failsWith('digest_mismatch'))
    await assert.rejects(check(bytes, { ...state, fingerprint: 'b'.repeat(64) }), failsWith('space_mismatch'))
  })
})
