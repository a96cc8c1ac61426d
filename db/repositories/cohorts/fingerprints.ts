import { hash } from 'node:crypto'
import { identityOfFiles, identityOfSpace } from '../../../domain/cohorts/spaces/spaces.ts'
import type { ModelSpace } from '../../../schemas/cohorts/evaluator.ts'

/** Returns the fingerprint of a completed space: spaces with equal fingerprints hold the same values. */
export const fingerprintOf = (space: ModelSpace): string => hash('sha256', identityOfSpace(space))

/** Returns the digest of a model, over the paths and digests of its files. */
export const weightsDigest = (files: Parameters<typeof identityOfFiles>[0]): string =>
  hash('sha256', identityOfFiles(files))
