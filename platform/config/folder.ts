import { existsSync, mkdirSync, mkdtempSync, rmdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ConfigError } from '../config.ts'

const WHY: Readonly<Record<string, string>> = {
  EEXIST: 'a file is in its place',
  ENOTDIR: 'a file is in its place',
  ENOENT: 'nothing can be created there',
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  EROFS: 'its file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk is full',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its links lead in a circle',
}

/** Creates the folder of a setting and tries to write in it; throws a `ConfigError` with the setting and the reason. */
export function usableFolder(setting: string, path: string): void {
  try {
    make(path)
    rmdirSync(mkdtempSync(join(path, '.hearth-')))
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException
    throw new ConfigError(`${setting} cannot be ${path}: ${WHY[code] ?? message}.`, { cause })
  }
}

/** Node's own recursive `mkdir` never returns where the system answers ENOENT in an existing folder, as below /proc. */
function make(path: string): void {
  const parent = dirname(path)
  if (parent !== path && !existsSync(parent)) make(parent)
  try {
    mkdirSync(path)
  } catch (err) {
    const isThere = (err as NodeJS.ErrnoException).code === 'EEXIST' && statSync(path).isDirectory()
    if (!isThere) throw err
  }
}
