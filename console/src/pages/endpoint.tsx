import { Stack, Tabs, Text } from '@mantine/core'
import { useParams } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { BUILDER } from '../api.ts'
import { number } from '../format.ts'
import { CodeText, Json } from '../parts/code.tsx'
import { Copies } from '../parts/copies.tsx'
import { Facts } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Loading, Page, Panel } from '../parts/page.tsx'
import { State, StateNote } from '../parts/state.tsx'
import { Chat } from '../playground/chat.tsx'
import { codeFor } from '../playground/code-for.ts'
import { stateWordsFor } from '../states.ts'
import type { Endpoint } from '../types.ts'
import { useApi } from '../use-api.ts'
import { useMay } from '../use-may.ts'

const SchemaForm = lazy(() => import('../playground/schema-form.tsx'))
const Embedder = lazy(() => import('../playground/embedder.tsx'))
/** The task types of language models, which get a chat. */
const CHATS = new Set(['chat', 'code', 'text-generation'])

const nodes = (count: number): string => (count === 1 ? '1 node' : `${number(count)} nodes`)

export function EndpointPage() {
  const { endpointId } = useParams({ from: '/endpoints/$endpointId' })
  const { data, error } = useApi<Endpoint>(`${BUILDER}/endpoints/${endpointId}`)
  if (!data) return <Loading error={error} what="endpoint" />
  return (
    <Page title={data.display_name || data.name} lead={data.description}>
      <StateNote as="endpoint" of={data.status} />
      {data.owned && <StateNote as="review" of={data.review_status} why={data.review_note} />}
      <Parts key={data.endpoint_id} of={data} />
      <Panel title="Details">
        <Facts
          of={{
            Name: <span className="mono">{data.name}</span>,
            State: <State as="endpoint" of={data.status} />,
            Readiness: data.readiness ? <Readiness of={data.readiness} /> : '–',
            'Loaded on': `${nodes(data.warm_nodes ?? 0)}, on the disks of ${nodes(data.cached_nodes ?? 0)}`,
            Kind: data.task_type,
            'Base model': data.base_model ?? '–',
            Visibility: data.visibility,
            ...(data.review_status !== 'active' && {
              Review: <State as="review" of={data.review_status} />,
            }),
            Requests: number(data.total_requests),
            Price: `${data.price_per_request} USD a request`,
          }}
        />
      </Panel>
      {data.owned && data.task_type !== 'tool' && (
        <Copies key={data.endpoint_id} endpointId={data.endpoint_id} />
      )}
    </Page>
  )
}

/** The ways to use an endpoint. The typed input is kept, and the code examples send the same input. */
function Parts({ of }: { of: Endpoint }) {
  const mayAsk = useMay('operator')
  const [input, setInput] = useState<unknown>()
  return (
    <Tabs defaultValue="try" keepMounted={false}>
      <Tabs.List mb="md">
        <Tabs.Tab value="try">Try it</Tabs.Tab>
        <Tabs.Tab value="code">Code</Tabs.Tab>
        <Tabs.Tab value="schema">Schema</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="try" keepMounted>
        {mayAsk ? (
          <Playground of={of} input={input} onInput={setInput} />
        ) : (
          <Text c="dimmed">Only a key with the role operator or admin may ask it.</Text>
        )}
      </Tabs.Panel>
      <Tabs.Panel value="code">
        <Stack>
          <Text size="sm">
            <span className="mono">$HEARTH_API_KEY</span> is a key of this account:{' '}
            <PageLink to="/account" className="link in-text">
              Keys and usage
            </PageLink>{' '}
            makes one.
          </Text>
          {codeFor(of, input).map(([name, text]) => (
            <Panel key={name} title={name}>
              <CodeText text={text} label={`${name} code`} />
            </Panel>
          ))}
        </Stack>
      </Tabs.Panel>
      <Tabs.Panel value="schema">
        <Json of={of.input_schema} label="input schema" />
      </Tabs.Panel>
    </Tabs>
  )
}

/** A cold model isn't an error, so its note appears next to its state instead of at the top of the page. */
function Readiness({ of }: { of: NonNullable<Endpoint['readiness']> }) {
  return (
    <>
      <State as="readiness" of={of} /> {stateWordsFor('readiness', of)[2]}
    </>
  )
}

interface PlaygroundProps {
  of: Endpoint
  input: unknown
  onInput: (input: unknown) => void
}

function Playground({ of, ...typed }: PlaygroundProps) {
  if (CHATS.has(of.task_type)) return <Chat endpoint={of} />
  return (
    <Suspense fallback={<Loading error={null} what="form" />}>
      {of.task_type === 'embeddings' ? <Embedder endpoint={of} /> : <SchemaForm endpoint={of} {...typed} />}
    </Suspense>
  )
}
