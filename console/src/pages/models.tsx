import { Tabs } from '@mantine/core'
import { BUILDER } from '../api.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Time } from '../parts/facts.tsx'
import { MergeForm } from '../parts/forms/merge-form.tsx'
import { PageLink } from '../parts/link.tsx'
import { Page } from '../parts/page.tsx'
import { Registry } from '../parts/registry.tsx'
import type { Model } from '../types.ts'
import { useSortedPages } from '../use-api.ts'
import { useMay } from '../use-may.ts'

export function Models() {
  const mayMerge = useMay('operator')
  return (
    <Page title="Models">
      <Tabs defaultValue="own" keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="own">Models of this account</Tabs.Tab>
          <Tabs.Tab value="registry">Registry</Tabs.Tab>
          {mayMerge && <Tabs.Tab value="merge">Merge</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="own">
          <OwnModels />
        </Tabs.Panel>
        <Tabs.Panel value="registry">
          <Registry />
        </Tabs.Panel>
        {mayMerge && (
          <Tabs.Panel value="merge">
            <MergeForm />
          </Tabs.Panel>
        )}
      </Tabs>
    </Page>
  )
}

function OwnModels() {
  const models = useSortedPages<'models', Model>(`${BUILDER}/models`, 'models', {}, { isNamed: true })
  return (
    <DataTable
      caption="models"
      {...models}
      idOf={({ model_id }) => model_id}
      empty="No models yet. You can register the result of a completed run as a model on the run's page."
      columns={[
        {
          head: 'Name',
          sort: 'name',
          cell: ({ model_id, name }) => (
            <PageLink to="/models/$modelId" params={{ modelId: model_id }}>
              {name}
            </PageLink>
          ),
        },
        { head: 'Versions', align: 'right', cell: ({ version_count }) => version_count },
        { head: 'Latest', cell: ({ latest_version }) => latest_version?.name ?? '–' },
        {
          head: 'State',
          state: ({ latest_version: latest }) =>
            latest ? { as: 'version', of: latest.lifecycle_status } : undefined,
        },
        { head: 'Created', sort: 'created_at', cell: ({ created_at }) => <Time at={created_at} /> },
      ]}
    />
  )
}
