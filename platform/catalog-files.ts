import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import type { ValidateFunction } from 'ajv/dist/2020.js'

/** Reads and validates a catalog file. Throws an error that names the file and the location in it. */
export function checkedFile<T>(file: string, validate: ValidateFunction<T>): T {
  const value = readJson(file)
  if (!validate(value)) throw badFile(file, validate.errors?.[0]?.instancePath || '/', firstFault(validate))
  return value
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (cause) {
    throw badFile(file, '/', `is not JSON: ${cause instanceof Error ? cause.message : String(cause)}`, cause)
  }
}

export function firstFault(validate: ValidateFunction): string {
  const error = validate.errors?.[0]
  const extra = error?.params['additionalProperty'] as string | undefined
  return [error?.message ?? 'is not valid', extra && `(${extra})`].filter(Boolean).join(' ')
}

export function badFile(file: string, path: string, problem: string, cause?: unknown): Error {
  return new Error(`The catalog file ${relative(process.cwd(), file)} cannot be used: ${path} ${problem}`, {
    cause,
  })
}
