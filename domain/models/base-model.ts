/** What a run starts from, as its adapter and its callers name it. */
export interface BaseModel {
  /** A repository of the hub, or an address that no hub mistakes for a repository. */
  name: string
  /** The commit, where the base is a repository that has been resolved. */
  revision: string | null
}

/** A version of this platform that was not imported from a hub: an address that nothing fetches by mistake. */
export const versionAddress = (versionId: string): string => `hearth://model_version/${versionId}`

/** What a version is called as the base of another one. */
export const baseModelOf = (
  versionId: string,
  imported: { repo_id: string; revision: string } | undefined,
): BaseModel =>
  imported
    ? { name: imported.repo_id, revision: imported.revision }
    : { name: versionAddress(versionId), revision: null }
