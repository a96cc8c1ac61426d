/** What every name of a hub import begins with, and no other name. */
const PREFIX = 'hf-'
const LONGEST = 80

export const isHubName = (name: string): boolean => name.startsWith(PREFIX)

/**
 * The name of an import: the repository's id with `--` between owner and name. No hub id holds `--` itself, so two
 * repositories share no name: `a-b/c` and `a/b-c` differ. Null where the id cannot be told back from it.
 */
export function hubModelName(repoId: string): string | null {
  const name = PREFIX + repoId.toLowerCase().replace('/', '--')
  const isPlain = name.length <= LONGEST && !repoId.includes('--') && /[a-z0-9]$/.test(name)
  return isPlain ? name : null
}

/** A name that is nobody's yet: as much of the repository's id as is legible, and the end of an id of our own. */
export function distinctHubName(repoId: string, id: string): string {
  const slug = repoId.toLowerCase().replaceAll(/[^a-z0-9.]+/g, '-')
  return `${PREFIX}${slug.slice(0, LONGEST - PREFIX.length).replace(/[-.]+$/, '')}--${id.slice(-8)}`
}
