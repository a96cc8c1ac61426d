import { Button, Text } from '@mantine/core'
import { useParams } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { BUILDER, client } from '../api.ts'
import { bytes, shortId } from '../format.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Time } from '../parts/facts.tsx'
import { ServeForm } from '../parts/forms/serve-form.tsx'
import { PageLink } from '../parts/link.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import type { Lineage, Model, ModelUsage, ModelVersion } from '../types.ts'
import { useAction } from '../use-action.ts'
import { useApi, usePages } from '../use-api.ts'
import { useMay } from '../use-may.ts'

const LineageGraph = lazy(() => import('../parts/lineage-graph.tsx'))

export function ModelPage() {
  const { modelId } = useParams({ from: '/models/$modelId' })
  const path = `${BUILDER}/models/${modelId}`
  const model = useApi<Model>(path)
  const versions = usePages<'versions', ModelVersion>(`${path}/versions`, 'versions')
  const lineage = useApi<Lineage>(`${path}/lineage`, { every: 15_000 })
  const usage = useApi<ModelUsage>(`${path}/usage`, { every: 15_000 })
  const mayServe = useMay('operator')
  const mayChange = useMay('admin')
  const { run, problem } = useAction()
  if (!model.data) return <Loading error={model.error} what="model" />
  const show = ({ version_id }: ModelVersion, visibility: 'public' | 'private') =>
    run(() => client().models.updateVersion(modelId, version_id, { visibility }))
  return (
    <Page
      title={model.data.name}
      lead="A model is a name with versions, each created by a run or an import. An endpoint serves one version. The registry lists the kinds of models that runs can start from."
    >
      {problem && <Failure error={problem} what="change" />}
      <Panel title="Versions">
        <DataTable
          caption="versions"
          rows={versions.rows}
          error={versions.error}
          more={versions}
          idOf={({ version_id }) => version_id}
          empty="No versions."
          columns={[
            { head: 'Name', cell: ({ name }) => name },
            {
              head: 'State',
              state: ({ lifecycle_status }) => ({ as: 'version', of: lifecycle_status }),
              cell: ({ lifecycle_note: note }) => note && <Text size="xs">{note}</Text>,
            },
            { head: 'Visibility', cell: ({ visibility }) => visibility },
            {
              head: 'Created by',
              cell: ({ job_id }) =>
                job_id ? (
                  <PageLink to="/runs/$runId" params={{ runId: job_id }}>
                    run {shortId(job_id)}
                  </PageLink>
                ) : (
                  'import'
                ),
            },
            { head: 'Size', align: 'right', cell: ({ size_bytes }) => bytes(size_bytes) },
            { head: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
            ...(mayChange
              ? [
                  {
                    head: 'Change',
                    cell: (version: ModelVersion) => {
                      const other = version.visibility === 'public' ? 'private' : 'public'
                      return (
                        <Button
                          size="compact-sm"
                          variant="default"
                          aria-label={`Make ${version.name} ${other}`}
                          onClick={() => void show(version, other)}
                        >
                          Make {other}
                        </Button>
                      )
                    },
                  },
                ]
              : []),
          ]}
        />
      </Panel>
      {mayServe && versions.rows && <ServeForm model={model.data.name} versions={versions.rows} />}
      <Panel title="Lineage">
        {lineage.data ? (
          <Suspense fallback={<Loading error={null} what="graph" />}>
            <LineageGraph of={lineage.data} endpoints={usage.data?.endpoints} />
          </Suspense>
        ) : (
          <Loading error={lineage.error} what="lineage" />
        )}
      </Panel>
    </Page>
  )
}
