import Type from 'typebox'

const WORDS = new Map<string, string>()

/** What a text under this pattern has to be, for whoever sent another one. */
export const formInWords = (pattern: string): string | undefined => WORDS.get(pattern)

interface TextOptions {
  minLength?: number
  maxLength?: number
  description?: string
}

/** A text of a certain form; callers are told `words` and not the pattern. */
export function Formed(pattern: string, words: string, options: TextOptions = {}) {
  WORDS.set(pattern, words)
  return Type.String({ ...options, pattern })
}

/** A text that says something. */
export const Filled = Formed('\\S', 'must not be blank', { minLength: 1 })

/** What people call something. */
export const Name = Formed('\\S', 'must not be blank', { minLength: 1, maxLength: 200 })

export const Sha256 = Formed('^[0-9a-f]{64}$', 'must be a SHA-256 in 64 lower-case hexadecimal digits')
