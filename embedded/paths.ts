import { join, resolve } from 'node:path'

/** The checkout that this platform runs from. */
export const ROOT = resolve(import.meta.dirname, '..')

/** The paths of one embedded platform. */
export interface Layout {
  data: string
  /** Pid files, which the next start uses to end leftover processes. */
  run: string
  logs: string
  postgres: string
  temporal: string
  objects: string
  node: string
  secrets: string
  /** Stores the port of the gate, so that it stays the same across restarts if it is free. */
  gatePort: string
  /** The content of `--ready-file`, present while the platform is up; `npx hearth` reads it. */
  ready: string
}

/** Returns the paths under one data directory. */
export function layoutOf(data: string): Layout {
  return {
    data,
    run: join(data, 'run'),
    logs: join(data, 'logs'),
    postgres: join(data, 'postgres'),
    temporal: join(data, 'temporal'),
    objects: join(data, 'objects'),
    node: join(data, 'node'),
    secrets: join(data, 'secrets.json'),
    gatePort: join(data, 'gate-port'),
    ready: join(data, 'ready.json'),
  }
}
