import { InvalidArgumentError } from 'commander'
import { isUuid } from '../domain/uuid.ts'
import type { ArtifactRef } from '../schemas/artifact-ref.ts'

/** Parses a model reference: a model version, the result of a run, a hub repository or a stored file. */
export function artifactRef(text: string): ArtifactRef {
  const colon = text.indexOf(':')
  const [kind, name] = [text.slice(0, colon), text.slice(colon + 1)]
  if (kind === 'version' && isUuid(name)) return { type: 'model_version', version_id: name }
  if (kind === 'run' && isUuid(name)) return { type: 'job', job_id: name }
  if (kind === 'hf' && name !== '') {
    const [repo = '', revision] = name.split('@')
    return { type: 'hf', repo_id: repo, ...(revision !== undefined && { revision }) }
  }
  if (kind === 's3') return { type: 'storage', uri: text }
  throw new InvalidArgumentError(
    'Expected version:<version_id>, run:<run_id>, hf:<owner/name>[@revision] or s3://bucket/key.',
  )
}

/** Appends a model to the earlier ones. */
export const artifactRefs = (text: string, earlier: ArtifactRef[] = []): ArtifactRef[] => [
  ...earlier,
  artifactRef(text),
]
