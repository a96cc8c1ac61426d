import { join, resolve } from 'node:path'

/** The checkout this platform runs from. */
export const ROOT = resolve(import.meta.dirname, '..')

/** Where everything of one embedded platform lives. */
export interface Layout {
  data: string
  /** Pid files: what the next start reaps. */
  run: string
  logs: string
  postgres: string
  temporal: string
  objects: string
  node: string
  secrets: string
  /** What `--ready-file` tells as well, there while the platform is up; `npx hearth` looks here. */
  ready: string
}

/** The folders under one data directory. */
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
    ready: join(data, 'ready.json'),
  }
}
