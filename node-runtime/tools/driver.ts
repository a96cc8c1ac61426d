import type { Readable } from 'node:stream'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'

/** The paths of a tool's files, identical under every driver. */
export const INSIDE = {
  node: '/hearth/bin/node',
  tool: '/hearth/tool',
  input: '/hearth/input',
  egress: '/hearth/egress.sock',
} as const

/** One run of a tool, ready to be started. */
export interface ToolRun {
  tool: CatalogTool
  /** The folder of the tool's program; undefined if its image contains it. */
  program: string | undefined
  /** The folder with the files of this request. */
  input: string
  /** The socket of the egress proxy, for tools that may use it. */
  egress: string | undefined
  timeS: number
}

/** A running tool. */
export interface StartedTool {
  readonly stdout: Readable
  readonly stderr: Readable
  readonly exited: Promise<{ code: number }>
  /** Settles once all of its processes and files are gone. */
  readonly gone: Promise<unknown>
  /** The error message if the node ended it. */
  readonly excess: string | undefined
  kill(): void
}

/** Starts tools in isolation. */
export interface ToolDriver {
  /** True if it can run operators' images. */
  readonly runsImages: boolean
  /** Returns why this machine cannot confine tools in this way; undefined if it can. */
  lack(): Promise<string | undefined>
  start(run: ToolRun): Promise<StartedTool>
}

/** The environment variables of every tool. */
export const TOOL_ENV: Readonly<Record<string, string>> = {
  PATH: '/hearth/bin:/usr/local/bin:/usr/bin:/bin',
  HOME: '/tmp',
  TMPDIR: '/tmp',
  LANG: 'C.UTF-8',
}

/** Returns the command of a tool with the paths of its interpreters and files. */
export const commandOf = (
  { command }: Pick<CatalogTool, 'command'>,
  paths: { node: string; python: string },
): string[] => {
  const values = { ...paths, tool: INSIDE.tool, input: INSIDE.input }
  return command.map((part) =>
    part.replace(/\{(node|python|tool|input)\}/g, (_, name: keyof typeof values) => values[name]),
  )
}
