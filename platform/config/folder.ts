import { existsSync, mkdirSync, mkdtempSync, rmdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ConfigError } from '../config.ts'

const WHY: Readonly<Record<string, string>> = {
  EEXIST: 'a file exists at this path',
  ENOTDIR: 'a file exists at this path',
  ENOENT: 'nothing can be created there',
  EACCES: 'this user cannot write there',
  EPERM: 'this user cannot write there',
  EROFS: 'its file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk is full',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its symbolic links form a loop',
}

/** Creates a setting's folder and tries to write to it; throws a `ConfigError` with the setting and the reason. */
export function usableFolder(setting: string, path: string): void {
  try {
    make(path)
    rmdirSync(mkdtempSync(join(path, '.hearth-')))
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException
    throw new ConfigError(`${setting} cannot be ${path}: ${WHY[code] ?? message}.`, { cause })
  }
}

/** Node's recursive `mkdir` never returns if the system reports ENOENT in an existing folder, as under /proc. */
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
