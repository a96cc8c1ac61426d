import { lstat, readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'

/** A model's own files name something that is not one of them; the message quotes no file. */
export class StrayFileError extends Error {
  override readonly name = 'StrayFileError'
}

/** Descriptions in which programs look for the names of further files. */
const DESCRIPTION = /^(?:.*\.index\.json|tokenizer_config\.json|manifest\.json)$/
const LARGEST_DESCRIPTION = 256 * 1024 * 1024

/**
 * Refuses a model folder whose descriptions lead out of it: libraries join such names to the folder as they are, and a
 * node's disk holds more than one account's models. Also refuses links and whatever else is no plain file.
 */
export async function checkModelFolder(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isFile() && !entry.isDirectory()) {
      throw new StrayFileError(`${entry.name} is a link or a device; a model is made of plain files`)
    }
    if (entry.isFile() && DESCRIPTION.test(entry.name)) await checkDescription(path)
  }
}

async function checkDescription(path: string): Promise<void> {
  const { size } = await lstat(path)
  if (size > LARGEST_DESCRIPTION) throw new StrayFileError(`${basename(path)} is too large`)
  let content: unknown
  try {
    content = JSON.parse(await readFile(path, 'utf8'))
  } catch {
    // Whoever needs this file says so in its own words.
    return
  }
  if (namedFiles(content).every(isPlainName)) return
  throw new StrayFileError(`${basename(path)} names a file outside of the model's folder`)
}

/** What libraries open by the names in a description. Other paths in it are where its maker once kept things. */
function namedFiles(content: unknown): unknown[] {
  if (typeof content !== 'object' || content === null) return []
  const { weight_map, fast_tokenizer_files, model_file } = content as Record<string, unknown>
  return [
    ...Object.values(typeof weight_map === 'object' ? (weight_map ?? {}) : {}),
    ...(Array.isArray(fast_tokenizer_files) ? (fast_tokenizer_files as unknown[]) : []),
    ...(model_file === undefined ? [] : [model_file]),
  ]
}

/** Whether this is the name of a file in the same folder. */
const isPlainName = (name: unknown): boolean =>
  typeof name === 'string' && name !== '' && name !== '.' && name !== '..' && !/[/\\\0]/.test(name)
