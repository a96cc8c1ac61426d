/** A file of a hub repository at one commit. A model version can refer to it instead of an object in the store. */
export interface HubFileRef {
  repoId: string
  revision: string
  path: string
}

const SCHEME = 'hub:'

export const hubKey = ({ repoId, revision, path }: HubFileRef): string =>
  `${SCHEME}${repoId}@${revision}/${path}`

/** Parses the key of a version's file; `undefined` when the file is in the object store, not on the hub. */
export function parseHubKey(key: string): HubFileRef | undefined {
  const [, repoId, revision, path] = /^hub:([^@]+)@([0-9a-f]+)\/(.+)$/.exec(key) ?? []
  return repoId && revision && path ? { repoId, revision, path } : undefined
}

export const COMMIT_PATTERN = '^[0-9a-f]{40}$'
