import { readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from '../../platform/log.ts'
import type { NodeModelSpec } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'
import type { CachedModel } from './cache.ts'

/** It is next to the weights, so that it is removed with them. */
const FILE = 'serving.json'

/** The settings that a gateway last returned for serving a model. */
interface StoredServing extends Pick<NodeModelSpec, 'serving' | 'has_adapters'> {
  /** ISO 8601. */
  read_at: string
}

/**
 * Returns the specification of a stored model with the serving in its current one, which is stored for later loads. If no
 * gateway returned one, uses what is stored.
 */
export async function withServing(
  { spec, directory }: CachedModel,
  current: NodeModelSpec | undefined,
  log: Logger,
): Promise<NodeModelSpec> {
  const path = join(dirname(directory), FILE)
  const last = current ? undefined : await read(path)
  if (current) await store(path, current)
  else emit(log, 'model.serving_unread', { model_key: spec.model_key, read_at: last?.read_at ?? null })
  const { serving, has_adapters } = current ?? last ?? spec
  const { serving: _, has_adapters: __, ...rest } = spec
  return { ...rest, ...(serving && { serving }), ...(has_adapters && { has_adapters }) }
}

async function store(path: string, { serving, has_adapters }: NodeModelSpec): Promise<void> {
  const stored: StoredServing = {
    read_at: new Date().toISOString(),
    ...(serving && { serving }),
    ...(has_adapters !== undefined && { has_adapters }),
  }
  try {
    await writeFile(`${path}.part`, JSON.stringify(stored))
    await rename(`${path}.part`, path)
  } catch {
    // The disk may be full. The next load requests the settings again.
  }
}

async function read(path: string): Promise<StoredServing | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as StoredServing
  } catch {
    return undefined
  }
}
