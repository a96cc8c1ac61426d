import type { ReadyFile } from '../../../../embedded/supervisor.ts'

const DAY_MS = 86_400_000
const dateIn = (days: number): string => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10)

/** Placeholders used on every page, with the values that a platform user would put there. */
const common = (ready: ReadyFile): [string | RegExp, string][] => [
  [/http:\/\/127\.0\.0\.1:8420|https:\/\/hearth\.your-company\.com/g, ready.base_url],
  [/hk_\.\.\./g, ready.api_key],
  ['HEARTH_OPERATIONS_KEY=...', `HEARTH_OPERATIONS_KEY=${ready.operations_key}`],
  [/\bACCOUNT_ID\b|<account_id>/g, ready.account_id],
  // The dates in the pages will pass, so use relative ones.
  ['2027-01-31', dateIn(60)],
  ['2026-11-01', dateIn(-28)],
]

/** Placeholders on single pages, and what a user adds to a command without a terminal, as shell text. */
export const PLACEHOLDERS: Readonly<Record<string, readonly [string, string][]>> = {
  'docs/cli.md': [
    ['hearth login --base-url http://127.0.0.1:8420', 'hearth login --base-url $HEARTH < key.txt'],
    ['hearth chat tiny', 'hearth chat tiny <<< Hello'],
    ['version:<id>', 'version:$(endpoint base version_id)'],
    ['run:<id>', `run:$(call training/runs | field 'runs.find((run) => run.job_name === "sums").job_id')`],
    ['nodes memory <id>', "nodes memory $(npx hearth nodes ls --json | field 'at(0).node_id')"],
    ['nodes logs <id>', "nodes logs $(npx hearth nodes ls --json | field 'at(0).node_id')"],
  ],
  'docs/deployment.md': [['ENDPOINT_ID', '$(endpoint home-prices endpoint_id)']],
  'docs/ide-recipes.md': [['npx hearth login', 'npx hearth login --base-url $HEARTH < key.txt']],
  'docs/memory.md': [['<key_id>', "$(call keys | field 'keys.at(-1).key_id')"]],
  'docs/quickstart.md': [['FOLDER=...', 'FOLDER=./my-model']],
  'docs/teams-and-budgets.md': [
    // The newest key.
    ['KEY_ID', "$(call keys | field 'keys[0].key_id')"],
    ['assistant,search', 'tiny,home-prices'],
    ['update assistant', 'update tiny'],
    ['TASK_ID', "$(call 'tasks?limit=1' | field 'tasks[0].task_id')"],
  ],
}

/** Returns a command from a page as a user types it, with the values for its placeholders. */
export function fillIn(page: string, text: string, ready: ReadyFile): string {
  const replacements = [...(PLACEHOLDERS[page] ?? []), ...common(ready)]
  return replacements.reduce((filled, [from, to]) => filled.replaceAll(from, () => to), text)
}
