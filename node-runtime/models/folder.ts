import { lstat, readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'

/** Thrown if a model's files refer to a file outside its folder. The message quotes no path. */
export class StrayFileError extends Error {
  override readonly name = 'StrayFileError'
}

/** Description files from which libraries read the names of other files. */
const DESCRIPTION = /^(?:.*\.index\.json|tokenizer_config\.json|manifest\.json)$/
const MAX_DESCRIPTION = 256 * 1024 * 1024

/**
 * Rejects a model folder whose description files refer to paths outside it. Libraries append such names to the folder
 * unchecked, and a node's disk holds models of several accounts. Also rejects links and other irregular files.
 */
export async function checkModelFolder(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isFile() && !entry.isDirectory()) {
      throw new StrayFileError(`${entry.name} is a link or a device; a model must consist of regular files`)
    }
    if (entry.isFile() && DESCRIPTION.test(entry.name)) await checkDescription(path)
  }
}

async function checkDescription(path: string): Promise<void> {
  const { size } = await lstat(path)
  if (size > MAX_DESCRIPTION) throw new StrayFileError(`${basename(path)} is too large`)
  let content: unknown
  try {
    content = JSON.parse(await readFile(path, 'utf8'))
  } catch {
    // The library that needs this file reports a clearer error.
    return
  }
  if (namedFiles(content).every(isPlainName)) return
  throw new StrayFileError(`${basename(path)} names a file outside the model's folder`)
}

/** Returns the names that libraries open. Other paths in a description refer to its author's machine. */
function namedFiles(content: unknown): unknown[] {
  if (typeof content !== 'object' || content === null) return []
  const { weight_map, fast_tokenizer_files, model_file } = content as Record<string, unknown>
  return [
    ...Object.values(typeof weight_map === 'object' ? (weight_map ?? {}) : {}),
    ...(Array.isArray(fast_tokenizer_files) ? (fast_tokenizer_files as unknown[]) : []),
    ...(model_file === undefined ? [] : [model_file]),
  ]
}

/** Returns whether this is the name of a file in the same folder. */
const isPlainName = (name: unknown): boolean =>
  typeof name === 'string' && name !== '' && name !== '.' && name !== '..' && !/[/\\\0]/.test(name)
