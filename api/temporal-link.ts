import type { Config } from '../platform/config.ts'

/** Returns where operators find a workflow in the Temporal UI; null where no UI is set. */
export function temporalLink(
  {
    TEMPORAL_UI_URL: ui,
    TEMPORAL_NAMESPACE: namespace,
  }: Pick<Config, 'TEMPORAL_UI_URL' | 'TEMPORAL_NAMESPACE'>,
  workflowId: string,
): string | null {
  if (!ui) return null
  const path = `namespaces/${encodeURIComponent(namespace)}/workflows/${encodeURIComponent(workflowId)}`
  return `${ui.replace(/\/+$/, '')}/${path}`
}
