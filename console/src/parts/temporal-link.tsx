import type { ReactNode } from 'react'
import { ADMIN, withQuery } from '../api.ts'
import { useKey } from '../session.ts'
import type { WorkItem } from '../types.ts'
import { useApi } from '../use-api.ts'

/** Links to the workflow of some work, if the platform knows the URL of the Temporal UI (TEMPORAL_UI_URL). */
export function TemporalLink({ url, id }: { url: string | null; id: string | null }) {
  if (id === null) return <>none: it went to a node directly</>
  if (url === null) return <span className="mono">{id}</span>
  return (
    <a className="link mono" href={url} target="_blank" rel="noreferrer">
      {id}
    </a>
  )
}

/** Returns a link to the workflow of some work as a fact, if the tab has the operations key. */
export function useWorkflow(of: Pick<WorkItem, 'kind' | 'id'> | undefined): Record<string, ReactNode> {
  const key = useKey('operations')
  const path = key !== null && of ? withQuery(`${ADMIN}/work`, { kind: of.kind, id: of.id }) : null
  const [found] = useApi<{ work: WorkItem[] }>(path, { every: false }).data?.work ?? []
  return found ? { Workflow: <TemporalLink id={found.workflow_id} url={found.temporal_url} /> } : {}
}
