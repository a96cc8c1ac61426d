import { Tabs } from '@mantine/core'
import { BUILDER } from '../api.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Time } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Page } from '../parts/page.tsx'
import { State } from '../parts/state.tsx'
import type { Model, RegistryEntry } from '../types.ts'
import { usePages } from '../use-api.ts'

export function Models() {
  return (
    <Page title="Models">
      <Tabs defaultValue="own" keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="own">Models of this account</Tabs.Tab>
          <Tabs.Tab value="registry">Registry</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="own">
          <OwnModels />
        </Tabs.Panel>
        <Tabs.Panel value="registry">
          <Registry />
        </Tabs.Panel>
      </Tabs>
    </Page>
  )
}

function OwnModels() {
  const models = usePages<'models', Model>(`${BUILDER}/models`, 'models')
  return (
    <DataTable
      caption="models"
      rows={models.rows}
      error={models.error}
      more={models}
      idOf={({ model_id }) => model_id}
      empty="No models yet. A completed run makes a version; POST /models gives it a name."
      columns={[
        {
          head: 'Name',
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
          cell: ({ latest_version }) =>
            latest_version ? <State of={latest_version.lifecycle_status} /> : '–',
        },
        { head: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
      ]}
    />
  )
}

function Registry() {
  const models = usePages<'models', RegistryEntry>(`${BUILDER}/models/registry`, 'models')
  return (
    <DataTable
      caption="registry"
      rows={models.rows}
      error={models.error}
      more={models}
      idOf={({ model_config_id }) => model_config_id}
      empty="The registry is empty."
      columns={[
        { head: 'Model', cell: ({ model_config_id }) => <span className="mono">{model_config_id}</span> },
        { head: 'Name', cell: ({ model_name }) => model_name },
        { head: 'Kind', cell: ({ task_type }) => task_type },
        { head: 'Source', cell: ({ source, repo_id }) => repo_id ?? source },
        { head: 'Licence', cell: ({ licence }) => licence ?? '–' },
        {
          head: 'State',
          cell: ({ lifecycle_status, lifecycle_note }) => (
            <span title={lifecycle_note ?? undefined}>
              <State of={lifecycle_status} />
            </span>
          ),
        },
      ]}
    />
  )
}
