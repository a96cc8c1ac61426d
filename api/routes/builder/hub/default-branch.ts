import { invalid } from '../../../../domain/errors.ts'
import { HubError, MAX_COMMITS } from '../../../../platform/hub/client.ts'
import type { Services } from '../../../services.ts'

/**
 * Resolves a revision to a commit on the default branch. Anyone can add other commits to a repository by proposing a
 * change, so we only offer commits that its owners have merged.
 */
export async function commitOnDefaultBranch(
  { hub, hubReader }: Pick<Services, 'hub' | 'hubReader'>,
  accountId: string,
  { repoId, revision }: { repoId: string; revision: string },
): Promise<string> {
  const { revision: head } = (await hubReader.see(accountId, repoId)).info
  const commit = (await known(hubReader.see(accountId, repoId, revision)))?.info
  const isOffered = commit && (await known(hub.isAncestor(repoId, { head, commit: commit.revision })))
  if (commit && isOffered) return commit.revision
  throw invalid(
    ['body', 'revision'],
    `${JSON.stringify(revision)} is not reachable from the default branch of ${repoId} (only its newest ` +
      `${MAX_COMMITS} commits count): name that branch, a commit on it, or a tag that points to one`,
    'hub_revision',
  )
}

/** Returns undefined when the hub has no such revision. */
const known = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((err: unknown) => {
    if (err instanceof HubError && err.code === 'not_found') return undefined
    throw err
  })
