import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** How to get the programs that benches start. npm has no equivalents that measure the same way. */
const SOURCES: Readonly<Record<string, string>> = {
  wrk: 'the Debian package wrk (`apt-get install wrk`)',
  taskset: 'the Debian package util-linux (`apt-get install util-linux`)',
  nginx: 'the Debian package nginx-light (`apt-get install nginx-light`)',
  go: 'https://go.dev/dl, or the Debian package golang-go',
}

/** Ends the bench with status 2 if this machine lacks a program, before anything has been started. */
export function needPrograms(...names: string[]): void {
  const missing = names.filter((name) => !isOnPath(name))
  if (missing.length === 0) return
  lack(missing.map((name) => `This bench needs ${name}. Get it from ${SOURCES[name]}.`).join('\n'))
}

/** Ends the bench with status 2 because this machine lacks something. */
export function lack(what: string): never {
  console.error(what)
  process.exit(2)
}

function isOnPath(name: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
