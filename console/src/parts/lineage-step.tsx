import { Button, Group, SimpleGrid, Stack, Text } from '@mantine/core'
import { Facts } from './facts.tsx'
import type { Graph } from './graph.ts'
import { LeftOutColumns } from './left-out.tsx'
import { PageLink } from './link.tsx'

interface StepProps {
  of: Graph
  at: string
  onGo: (id: string) => void
}

/** One item of a lineage with its origins and results, to navigate the graph by keyboard. */
export function LineageStep({ of, at, onGo }: StepProps) {
  const node = of.nodes.find(({ id }) => id === at)
  if (!node) return null
  const inputs = of.edges.filter(({ to }) => to === at)
  const uses = of.edges.filter(({ from }) => from === at)
  const { left_out_columns: leftOut, ...rest } = node.details
  const details = Object.entries(rest).filter(([, value]) => value !== null)
  return (
    <Stack gap="xs" mt="md" role="group" aria-label="The selected item">
      <Text fw={600} aria-live="polite">
        {node.type.replaceAll('_', ' ')}: {node.label} <OwnPage of={node} />
      </Text>
      {details.length > 0 && (
        <Facts
          of={Object.fromEntries(
            details.map(([name, value]) => [
              name.replaceAll('_', ' '),
              <span key={name} className="mono">
                {typeof value === 'string' ? value : JSON.stringify(value)}
              </span>,
            ]),
          )}
        />
      )}
      <LeftOutColumns of={leftOut} />
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <Ways
          of={of}
          title="Made of"
          ways={inputs.map(({ from, relation }) => ({ id: from, relation }))}
          onGo={onGo}
        />
        <Ways
          of={of}
          title="Used for"
          ways={uses.map(({ to, relation }) => ({ id: to, relation }))}
          onGo={onGo}
        />
      </SimpleGrid>
    </Stack>
  )
}

interface WaysProps extends Omit<StepProps, 'at'> {
  title: string
  ways: readonly { id: string; relation: string }[]
}

function Ways({ of, title, ways, onGo }: WaysProps) {
  return (
    <div role="group" aria-label={title}>
      <Text size="sm" fw={600} mb={4}>
        {title}
      </Text>
      {ways.length === 0 && (
        <Text size="sm" c="dimmed">
          Nothing in this graph.
        </Text>
      )}
      <Group gap="xs">
        {ways.map(({ id, relation }) => (
          <Button
            key={`${id} ${relation}`}
            size="compact-sm"
            variant="default"
            maw="100%"
            onClick={() => onGo(id)}
          >
            {relation.replaceAll('_', ' ')}: {of.nodes.find((node) => node.id === id)?.label ?? id}
          </Button>
        ))}
      </Group>
    </div>
  )
}

/** Runs, merges, datasets and endpoints have their own pages. */
function OwnPage({ of: { details } }: { of: Graph['nodes'][number] }) {
  const { job_id, dataset_id, endpoint_id } = details
  if (typeof job_id === 'string')
    return (
      <PageLink to="/runs/$runId" params={{ runId: job_id }}>
        Open the run
      </PageLink>
    )
  if (typeof dataset_id === 'string')
    return (
      <PageLink to="/datasets/$datasetId" params={{ datasetId: dataset_id }}>
        Open the dataset
      </PageLink>
    )
  if (typeof endpoint_id === 'string')
    return (
      <PageLink to="/endpoints/$endpointId" params={{ endpointId: endpoint_id }}>
        Open the endpoint
      </PageLink>
    )
  return null
}
