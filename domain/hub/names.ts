/** Every hub import's name begins with this prefix, and no other name does. */
const PREFIX = 'hf-'
const MAX_LENGTH = 80

export const isHubName = (name: string): boolean => name.startsWith(PREFIX)

/**
 * Returns the name of an import: the repository's id with `--` between owner and name. Null when the id could not be
 * recovered from the name, for example because it contains `--`. So two repositories never share a name: `a-b/c` and
 * `a/b-c` differ.
 */
export function hubModelName(repoId: string): string | null {
  const name = PREFIX + repoId.toLowerCase().replace('/', '--')
  const isPlain = name.length <= MAX_LENGTH && !repoId.includes('--') && /[a-z0-9]$/.test(name)
  return isPlain ? name : null
}

/** Returns a unique name: a slug of the repository's id plus the end of one of our ids. */
export function distinctHubName(repoId: string, id: string): string {
  const slug = repoId.toLowerCase().replaceAll(/[^a-z0-9.]+/g, '-')
  return `${PREFIX}${slug.slice(0, MAX_LENGTH - PREFIX.length).replace(/[-.]+$/, '')}--${id.slice(-8)}`
}
