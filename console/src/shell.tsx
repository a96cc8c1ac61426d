import {
  ActionIcon,
  AppShell,
  Burger,
  Group,
  NavLink,
  ScrollArea,
  Text,
  useComputedColorScheme,
  useMantineColorScheme,
} from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect } from 'react'
import { Connection } from './parts/connection.tsx'
import { Icon, type IconName } from './parts/icon.tsx'
import { setKey } from './session.ts'
import { useMe } from './use-may.ts'

const ACCOUNT = [
  ['/', 'Overview', 'overview'],
  ['/runs', 'Runs', 'runs'],
  ['/models', 'Models', 'models'],
  ['/endpoints', 'Endpoints', 'endpoints'],
  ['/datasets', 'Datasets', 'datasets'],
  ['/tasks', 'Tasks', 'tasks'],
  ['/webhooks', 'Webhooks', 'webhooks'],
  ['/agents', 'Agents', 'agents'],
  ['/account', 'Keys and usage', 'account'],
] as const satisfies readonly (readonly [string, string, IconName])[]
const OPERATORS = [
  ['/nodes', 'Nodes', 'nodes'],
  ['/queues', 'Queues', 'queues'],
  ['/accounts', 'Accounts', 'accounts'],
  ['/kill-switch', 'Kill switch', 'switch'],
  ['/audit', 'Audit', 'audit'],
] as const satisfies readonly (readonly [string, string, IconName])[]

/** The frame of every page. */
export function Shell() {
  const [isOpen, { toggle, close }] = useDisclosure()
  const path = useRouterState({ select: (state) => state.location.pathname })
  const queries = useQueryClient()
  useEffect(close, [path, close])

  function signOut() {
    setKey('operations', null)
    setKey('api', null)
    queries.clear()
  }

  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 220, breakpoint: 'sm', collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <AppShell.Header>
        <a className="skip" href="#content">
          To the content
        </a>
        <Group h="100%" px="md" justify="space-between">
          <Group gap="sm">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Pages" />
            <Text fw={700}>Hearth</Text>
          </Group>
          <Group gap="xs">
            <Identity />
            <SchemeButton />
            <ActionIcon variant="default" size="lg" onClick={signOut} aria-label="Sign out" title="Sign out">
              <Icon name="out" />
            </ActionIcon>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages">
        <AppShell.Section grow component={ScrollArea} viewportProps={{ tabIndex: 0 }}>
          {ACCOUNT.map((entry) => (
            <Entry key={entry[0]} entry={entry} path={path} />
          ))}
          <Text size="xs" c="dimmed" fw={600} px="sm" pt="md" pb={4}>
            Operators
          </Text>
          {OPERATORS.map((entry) => (
            <Entry key={entry[0]} entry={entry} path={path} />
          ))}
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Connection />
        <Outlet />
      </AppShell.Main>
    </AppShell>
  )
}

/** Shows the key's account and role; the role explains why a button is missing. */
function Identity() {
  const me = useMe().data
  return (
    me && (
      <Text size="sm" c="dimmed" visibleFrom="sm">
        {me.account.name}, {me.role}
      </Text>
    )
  )
}

type PagePath = (typeof ACCOUNT)[number][0] | (typeof OPERATORS)[number][0]

function Entry({
  entry: [to, label, icon],
  path,
}: {
  entry: readonly [PagePath, string, IconName]
  path: string
}) {
  const isHere = to === '/' ? path === '/' : path === to || path.startsWith(`${to}/`)
  return (
    <NavLink
      renderRoot={(props) => <Link to={to} {...props} />}
      label={label}
      leftSection={<Icon name={icon} />}
      active={isHere}
      aria-current={isHere ? 'page' : undefined}
    />
  )
}

function SchemeButton() {
  const { setColorScheme } = useMantineColorScheme()
  const scheme = useComputedColorScheme('light')
  const other = scheme === 'dark' ? 'light' : 'dark'
  return (
    <ActionIcon
      variant="default"
      size="lg"
      onClick={() => setColorScheme(other)}
      aria-label={`Use the ${other} colours`}
      title={`Use the ${other} colours`}
    >
      <Icon name="sun" />
    </ActionIcon>
  )
}
