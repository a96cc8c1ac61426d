import { createHash } from 'node:crypto'

const MAX_LENGTH = 64
const SAFE = /^[A-Za-z0-9_-]{1,64}$/
const TAIL = 8

/**
 * Returns, for each slug, a name that every client accepts: letters, digits, `_` and `-`, at most 64 characters. A slug
 * that is already such a name keeps it. A name that would be too long or taken ends in digits of the slug's hash
 * instead, so it doesn't depend on the order of the slugs.
 */
export function safeNames(slugs: readonly string[]): Map<string, string> {
  const wanted = new Map(slugs.map((slug) => [slug, slug.replaceAll(/[^A-Za-z0-9_-]/g, '_')]))
  const counts = new Map<string, number>()
  for (const name of wanted.values()) counts.set(name, (counts.get(name) ?? 0) + 1)
  return new Map(
    [...wanted].map(([slug, name]) => {
      const isOwn = SAFE.test(slug) || (SAFE.test(name) && counts.get(name) === 1)
      return [slug, isOwn ? name : withTail(name, slug)]
    }),
  )
}

const withTail = (name: string, slug: string): string =>
  `${name.slice(0, MAX_LENGTH - TAIL - 1)}_${createHash('sha256').update(slug).digest('hex').slice(0, TAIL)}`
