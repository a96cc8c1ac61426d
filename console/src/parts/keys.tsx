import { Alert, Button, Group, Select, Stack, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { BUILDER, client } from '../api.ts'
import { number } from '../format.ts'
import type { ApiKey, CreateApiKey, KeyLimits } from '../types.ts'
import { useAction } from '../use-action.ts'
import { useApi } from '../use-api.ts'
import { useMay, useMe } from '../use-may.ts'
import { CodeText } from './code.tsx'
import { DataTable } from './data-table.tsx'
import { Time } from './facts.tsx'
import { Failure, Panel } from './page.tsx'

const KEYS = `${BUILDER}/keys`
const DAY_MS = 86_400_000

/** Lets admins of the account create, list and revoke its keys. */
export function Keys() {
  return useMay('admin') ? (
    <KeyPanel />
  ) : (
    <Panel title="Keys">
      <Text c="dimmed">Only a key with the role admin sees and changes the keys of the account.</Text>
    </Panel>
  )
}

function KeyPanel() {
  const { data, error } = useApi<{ keys: ApiKey[] }>(KEYS)
  const ownKeyId = useMe().data?.key.id
  const { run, problem } = useAction()
  const [revoking, setRevoking] = useState<string>()
  const revoke = (id: string) => run(() => client().keys.revoke(id))
  return (
    <Panel title="Keys">
      <NewKey />
      {problem && <Failure error={problem} what="change" />}
      <DataTable
        caption="keys"
        rows={data?.keys}
        error={error}
        idOf={({ key_id }) => key_id}
        empty="No keys."
        columns={[
          { head: 'Name', cell: ({ name }) => name },
          { head: 'Ends in', cell: ({ hint }) => <span className="mono">{hint}</span> },
          { head: 'Role', cell: ({ role }) => role },
          { head: 'Limits', cell: (key) => formatLimits(key) },
          { head: 'Ends', cell: ({ expires_at }) => <Time at={expires_at} /> },
          { head: 'Last used', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
          {
            head: 'Change',
            cell: ({ key_id, name, revoked_at }) =>
              revoked_at ? (
                <>
                  Revoked <Time at={revoked_at} />
                </>
              ) : key_id === ownKeyId ? (
                'In use here'
              ) : revoking === key_id ? (
                <Button size="compact-sm" color="red" onClick={() => void revoke(key_id)}>
                  Revoke {name} permanently
                </Button>
              ) : (
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`Revoke ${name}`}
                  onClick={() => setRevoking(key_id)}
                >
                  Revoke
                </Button>
              ),
          },
        ]}
      />
    </Panel>
  )
}

function formatLimits({ limits, tools }: Pick<ApiKey, 'limits' | 'tools'>): string {
  const { requests_per_minute, tokens_per_minute, budget_credits_per_month, models, service_tier } =
    limits ?? {}
  const words = [
    tools && `only the tools ${tools.join(', ')}, by actions and MCP`,
    requests_per_minute !== undefined && `${number(requests_per_minute)} requests per minute`,
    tokens_per_minute !== undefined && `${number(tokens_per_minute)} tokens per minute`,
    budget_credits_per_month !== undefined && `${number(budget_credits_per_month)} credits per month`,
    models && `only ${models.join(', ')}`,
    service_tier && `tier ${service_tier} at most`,
  ]
  return words.filter(Boolean).join('; ') || 'none'
}

const ROLES = {
  viewer: 'reads everything of the account, and changes nothing',
  operator: 'also uploads, trains, serves and asks models',
  admin: 'also deletes, and changes keys and webhooks',
}
type Role = keyof typeof ROLES

/** Numbers are stored as typed. */
interface KeyDraft {
  name: string
  role: Role
  days: string
  requests: string
  tokens: string
  credits: string
  models: string
}

const BLANK: KeyDraft = {
  name: '',
  role: 'operator',
  days: '',
  requests: '',
  tokens: '',
  credits: '',
  models: '',
}

const COUNTS = ['days', 'requests', 'tokens', 'credits'] as const
type Count = (typeof COUNTS)[number]

/** Returns what is wrong with a number; an empty field means no limit. */
function faultOf(member: Count, typed: string): string | undefined {
  if (typed === '') return undefined
  if (member === 'credits') return /^\d+(?:\.\d+)?$/.test(typed) ? undefined : 'A number, such as 2.5'
  const isCount = member === 'days' ? /^[1-9]\d{0,4}$/ : /^[1-9]\d{0,8}$/
  return isCount.test(typed) ? undefined : 'A whole number, at least 1'
}

/** Omits empty fields, which mean no limit. */
function bodyOf({ name, role, days, requests, tokens, credits, models }: KeyDraft): CreateApiKey {
  const named = models.split(',').flatMap((text) => text.trim() || [])
  const limits: KeyLimits = {
    ...(requests !== '' && { requests_per_minute: Number(requests) }),
    ...(tokens !== '' && { tokens_per_minute: Number(tokens) }),
    ...(credits !== '' && { budget_credits_per_month: Number(credits) }),
    ...(named.length > 0 && { models: named }),
  }
  return {
    name,
    role,
    ...(Object.keys(limits).length > 0 && { limits }),
    ...(days !== '' && { expires_at: new Date(Date.now() + Number(days) * DAY_MS).toISOString() }),
  }
}

/** Scrolls to the key, because the page is long and the key is shown only once. */
const show = (element: HTMLElement | null): void => element?.scrollIntoView({ block: 'center' })

function NewKey() {
  const { run, isBusy, problem } = useAction()
  const [wanted, setWanted] = useState(BLANK)
  const [made, setMade] = useState<string>()
  const set = (change: Partial<KeyDraft>) => setWanted((now) => ({ ...now, ...change }))
  const isWrong = COUNTS.some((member) => faultOf(member, wanted[member]) !== undefined)
  const count = (member: Count, label: string) => (
    <TextInput
      label={label}
      value={wanted[member]}
      onChange={(event) => set({ [member]: event.currentTarget.value.trim() })}
      error={faultOf(member, wanted[member])}
      inputMode="decimal"
      w={150}
    />
  )
  function submit(event: FormEvent) {
    event.preventDefault()
    void run(async () => {
      const { api_key } = await client().keys.create(bodyOf(wanted))
      setMade(api_key)
      setWanted(BLANK)
    })
  }
  return (
    <Stack mb="lg">
      {made && (
        <Alert
          ref={show}
          role="note"
          variant="outline"
          title="Copy the key now: it is not shown again"
          withCloseButton
          closeButtonLabel="Forget the key"
          onClose={() => setMade(undefined)}
        >
          <CodeText text={made} label="key" />
        </Alert>
      )}
      <form onSubmit={submit}>
        <Group align="flex-start">
          <TextInput
            label="Name of the new key"
            value={wanted.name}
            onChange={(event) => set({ name: event.currentTarget.value })}
            required
          />
          <Select
            label="Role"
            data={Object.keys(ROLES) as Role[]}
            renderOption={({ option }) => (
              <div>
                {option.label}
                <Text size="xs" c="dimmed">
                  {ROLES[option.value as Role]}
                </Text>
              </div>
            )}
            comboboxProps={{ width: 320, position: 'bottom-start' }}
            value={wanted.role}
            onChange={(role) => role && set({ role })}
            allowDeselect={false}
            w={120}
          />
          {count('days', 'Valid for days')}
          {count('requests', 'Requests per minute')}
          {count('tokens', 'Tokens per minute')}
          {count('credits', 'Credits per month')}
          <TextInput
            label="Only these endpoints"
            placeholder="names, separated by commas"
            value={wanted.models}
            onChange={(event) => set({ models: event.currentTarget.value })}
          />
        </Group>
        <Text size="sm" c="dimmed" my="xs">
          {wanted.role}: {ROLES[wanted.role]}.
        </Text>
        <Button type="submit" loading={isBusy} disabled={wanted.name.trim() === '' || isWrong}>
          Create a key
        </Button>
      </form>
      {problem && <Failure error={problem} what="key" />}
    </Stack>
  )
}
