import { invalid } from '../../../../domain/errors.ts'
import { HubError, MAX_COMMITS } from '../../../../platform/hub/client.ts'
import type { Services } from '../../../services.ts'

/**
 * The commit that a revision of the default branch stands for. Anybody can put commits into a repository beside that
 * branch, by proposing a change, so that only what its owners have taken into it is offered under its name.
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
    `${JSON.stringify(revision)} is not reachable from the default branch of ${repoId}, of which the newest ` +
      `${MAX_COMMITS} commits count: name that branch, a commit of it, or a tag that points to one`,
    'hub_revision',
  )
}

/** Undefined when the hub knows of no such thing. */
const known = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((err: unknown) => {
    if (err instanceof HubError && err.code === 'not_found') return undefined
    throw err
  })
