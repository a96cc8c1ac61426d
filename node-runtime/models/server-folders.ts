import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import type { CachedModel } from '../weights/cache.ts'

/**
 * Creates the folder for compiled kernels in the model's folder, so that it is removed with the weights, and no server
 * of another model can write to it. Undefined for profiles that compile nothing.
 */
export async function compileDirOf(
  { directory }: CachedModel,
  { env }: RuntimeProfile,
): Promise<string | undefined> {
  if (!Object.values(env).some((value) => value.includes('{compile_dir}'))) return undefined
  const path = join(dirname(directory), 'compiled')
  await mkdir(path, { recursive: true, mode: 0o700 })
  return path
}

/**
 * Creates the empty folder for the adapters of a server, in the model's folder. Undefined for profiles without adapters, and
 * for servers that would reserve memory although the model has no adapters.
 */
export async function adaptersDirOf(
  { directory }: CachedModel,
  { adapters }: RuntimeProfile,
  acceptsAdapters: boolean,
): Promise<string | undefined> {
  if (!adapters || (adapters.options.length > 0 && !acceptsAdapters)) return undefined
  const path = join(dirname(directory), 'adapters')
  await rm(path, { recursive: true, force: true })
  await mkdir(path, { mode: 0o700 })
  return path
}
