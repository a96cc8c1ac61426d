import Type from 'typebox'

const WORDS = new Map<string, string>()

/** Returns the error message for a string that doesn't match this pattern. */
export const formatPattern = (pattern: string): string | undefined => WORDS.get(pattern)

interface TextOptions {
  minLength?: number
  maxLength?: number
  description?: string
}

/** A string with a pattern. Error messages show `words` instead of the pattern. */
export function Formed(pattern: string, words: string, options: TextOptions = {}) {
  WORDS.set(pattern, words)
  return Type.String({ ...options, pattern })
}

/** A string that is not blank. */
export const Filled = Formed('\\S', 'must not be blank', { minLength: 1 })

/** A display name. */
export const Name = Formed('\\S', 'must not be blank', { minLength: 1, maxLength: 200 })

export const Sha256 = Formed('^[0-9a-f]{64}$', 'must be a SHA-256 hash in 64 lower-case hexadecimal digits')
