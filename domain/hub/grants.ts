/** Returns whether any of an operator's patterns (a repository id, `owner/*` or `*`) matches a repository. */
export const isGranted = (patterns: readonly string[], repoId: string): boolean =>
  patterns.some((pattern) => covers(pattern.toLowerCase(), repoId.toLowerCase()))

const covers = (pattern: string, repoId: string): boolean =>
  pattern.endsWith('*') ? repoId.startsWith(pattern.slice(0, -1)) : repoId === pattern
