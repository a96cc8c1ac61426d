/** A run's base model, as its adapter and the API name it. */
export interface BaseModel {
  /** A hub repository, or an address that can't be mistaken for one. */
  name: string
  /** The commit of a resolved repository. */
  revision: string | null
}

/**
 * Returns the address of a version that was not imported from a hub. Its scheme keeps clients from fetching it by
 * mistake.
 */
export const versionAddress = (versionId: string): string => `hearth://model_version/${versionId}`

/** Returns the name of a version as the base of another one. */
export const baseModelOf = (
  versionId: string,
  imported: { repo_id: string; revision: string } | undefined,
): BaseModel =>
  imported
    ? { name: imported.repo_id, revision: imported.revision }
    : { name: versionAddress(versionId), revision: null }
