import { Button } from '@mantine/core'
import { ADMIN, call } from '../api.ts'
import type { NodeView } from '../types.ts'

interface NodeActionProps {
  of: Pick<NodeView, 'node_id' | 'name' | 'status'>
  run: (action: () => Promise<unknown>) => Promise<void>
}

/** Drains a node, so that it finishes its work and accepts no new work, or resumes it. */
export function NodeAction({ of: { node_id, name, status }, run }: NodeActionProps) {
  const action = status === 'draining' ? 'resume' : 'drain'
  const words = status === 'draining' ? 'Resume' : 'Drain'
  return (
    <Button
      size="compact-sm"
      variant="default"
      disabled={status !== 'online' && status !== 'draining'}
      aria-label={`${words} ${name}`}
      onClick={() =>
        void run(() => call(`${ADMIN}/nodes/${node_id}/${action}`, { method: 'POST', body: {} }))
      }
    >
      {words}
    </Button>
  )
}
